#!/usr/bin/env python3
"""Record `pylaunch demo` as docs/pictures/demo.svg: its real output, stack traces of ranks as their last lines.

tests/starts/test_demo.py compares the picture with a run.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/pictures/demo.svg"
WIDTH, LINE_PX, FONT_PX = 104, 17, 13
COMPARED = 60
"""Characters of a message that are compared, fewer than a line of the picture."""

STYLES = (
    (re.compile(r"\$ "), "#ffffff"),
    (re.compile(r"error:"), "#ff6b6b"),
    (re.compile(r"hint:"), "#5fd7d7"),
    (re.compile(r"n\d:\d \|"), "#9a9a9a"),
)
_LINE = re.compile(r"<text [^>]*>(.*)</text>")
_VARIES = re.compile(r"\b[0-9a-f]{8}\b|/\S*pylaunch-demo-\w+|\d+\.\d+|\d+ ms|\d+ s\b|\b\d+(?:[,-]\d+)+\b")
_RACES = re.compile(r"connecting|preparing|stopping all nodes|evidence|\s|n\d:\d \|")
"""Lines that depend on which rank notices a failure first, and those of ranks and stack traces."""

_TRACE = re.compile(r"n\d:\d \| (?:\s|Traceback)|  Traceback|    (?!\s*pylaunch )")


def picture(output: str) -> str:
    """Return the lines of `output` as an SVG without references to other files."""
    shown = [line for line in output.rstrip("\n").split("\n") if not _TRACE.match(line)]
    lines = [part for line in shown for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ") or [""]]
    size = f'width="{WIDTH * 8}" height="{(len(lines) + 2) * LINE_PX}"'
    text = [_element(line, (number + 2) * LINE_PX) for number, line in enumerate(lines)]
    font = f'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="{FONT_PX}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img" aria-label="Output of pylaunch demo">'
    return "\n".join([head, '<rect width="100%" height="100%" rx="8" fill="#1b1f24"/>', *text, "</svg>", ""])


def messages(output: str) -> list[str]:
    """Return the messages of pylaunch in `output`, without values that differ between two runs."""
    lines = [_VARIES.sub("…", line)[:COMPARED] for line in output.splitlines() if line]
    return [line for line in lines if not _RACES.match(line)]


def text_of(svg: str) -> str:
    """Return the lines of a picture."""
    return "\n".join(html.unescape(line) for line in _LINE.findall(svg))


def _element(line: str, y: int) -> str:
    return f'<text x="12" y="{y}" fill="{_colour(line)}" xml:space="preserve">{html.escape(line)}</text>'


def _colour(line: str) -> str:
    return next((colour for pattern, colour in STYLES if pattern.match(line)), "#d0d0d0")


def main() -> None:
    """Run the demo and write the picture."""
    demo = (sys.executable, "-m", "pylaunch", "demo")
    ended = subprocess.run(demo, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(f"$ pylaunch demo\n{ended.stdout}"), encoding="utf-8")


if __name__ == "__main__":
    main()
