"""Results as one HTML page with the plots: no scripts, no references to other files. Pure."""

from collections.abc import Iterable, Sequence
from html import escape

from pylaunch.model.text.sanitise import visible_line
from pylaunch.terminal.doors import MeasuredSection

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse}"
    "th,td{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "th:first-child,td:first-child{text-align:left}li.bad{color:#b2182b}svg{max-width:100%;height:auto}"
)


def bench_page(content: MeasuredSection, stages: Iterable[tuple[str, bool]]) -> str:
    """Return the page; `stages` are their lines, and whether they are broken."""
    body = [f"<h1>{_safe(content.about)}</h1>", "<h2>Verdicts</h2>", _list((line, False) for line in content.verdicts)]
    body += [f"<h2>{_safe(heading)}</h2>\n{plot}" for heading, plot in content.plots.items()]
    body += ["<h2>Stages</h2>", _list(stages)]
    if content.rows:
        body += ["<h2>Collectives</h2>", _table(content.columns, content.rows)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>{_safe(content.about)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _list(lines: Iterable[tuple[str, bool]]) -> str:
    items = (f"<li{' class=bad' if is_bad else ''}>{_safe(line)}</li>" for line, is_bad in lines)
    return f"<ul>{''.join(items)}</ul>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_safe(cell)}</th>" for cell in header)
    lines = ("".join(f"<td>{_safe(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _safe(text: str) -> str:
    return escape(visible_line(text))
