"""Reduce Ansible's errors about an inventory source to the lines that help its author.

Ansible tries its parsers one after the other and reports the failure of each. The relevant one is the first that is not
just "this is not my format".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from pylaunch.inventory.locate import place_of_text
from pylaunch.inventory.mistakes import explained

_NOT_MY_FORMAT = "no root 'plugin' key found"
_UNPACKING = "not enough values to unpack"
_BLOCK = re.compile(r"^\[(?:WARNING|ERROR)\]: ", re.MULTILINE)
_FAILED = re.compile(r"Failed to parse inventory with '(\w+)' plugin: (?:Failed to parse inventory: )?(.*)")
_ORIGIN = re.compile(r"^Origin: (?:<inventory plugin '\w+' with source '(?P<source>.*)'>|(?P<path>.*?))$", re.MULTILINE)
_SCRIPT_STDERR = "Standard error from inventory script:\n"
_SKIPPED = re.compile(r"^\[WARNING\]: (Skipping unexpected key \((.*)\) in group .*|Skipping .*)$", re.MULTILINE)
_DUPLICATE = re.compile(r"^\[WARNING\]: Found (duplicate mapping key .*)\.\nOrigin: (.*?):(\d+)", re.MULTILINE)
_QUOTED = re.compile(r"got: (.+)$|'(.+?)'(?= supplied|[.:]|$)")


def evidence(stderr: str, directory: str, files: Mapping[str, str]) -> list[str]:
    """Return one line per file that Ansible could not parse, with the line number where it is known.

    `files` maps paths relative to `directory` to the texts of the inventory.
    """
    lines: dict[str, list[str]] = {}
    for block in _BLOCK.split(stderr):
        failed, origin = _FAILED.search(block), _ORIGIN.search(block)
        if failed is None or origin is None or failed[2].startswith(_NOT_MY_FORMAT):
            continue
        path, _, position = (origin["source"] or origin["path"]).partition(":")
        name = path.removeprefix(f"{directory}/")
        message = (failed[2] if failed[2] != "Failed to parse inventory." else _cause(block)).rstrip(".")
        text = files.get(name, "")
        if _UNPACKING in message and (number := _unclosed_section(text)) is not None:
            position, message = str(number), "a section header without its closing bracket"
        place = f"{name}:{position.split(':')[0]}" if position else _place(name, text, message)
        known = place.rpartition(":")[2]
        number, message = explained(message, text, int(known) if known.isdecimal() else None)
        script_output = block.partition(_SCRIPT_STDERR)[2].strip().splitlines()
        lines.setdefault(name, [f"{name if number is None else f'{name}:{number}'}: {message}", *script_output])
    if lines:
        return [line for group in lines.values() for line in group]
    return [line.removeprefix("[ERROR]: ") for line in stderr.splitlines() if line.strip()][-5:]


def _cause(block: str) -> str:
    """Return the innermost cause of a chain."""
    return block.split("<<< caused by >>>")[-1].strip().splitlines()[0]


def _place(name: str, text: str, message: str) -> str:
    """Return `name`, with a line number when the message quotes text that occurs on one line only."""
    quoted = _QUOTED.search(message)
    return (quoted and place_of_text({name: text}, quoted[1] or quoted[2])) or name


def _unclosed_section(text: str) -> int | None:
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if line.startswith("[") and "]" not in line), None)


def skipped(stderr: str, directory: str, files: Mapping[str, str]) -> list[str]:
    """Return the parts of the inventory that Ansible ignored with a warning."""
    twice = [
        f"{path.removeprefix(f'{directory}/')}:{line}: {warning}, and only the last is used"
        for warning, path, line in _DUPLICATE.findall(stderr)
    ]
    ignored = []
    for warning, key in _SKIPPED.findall(stderr):
        place = place_of_text(files, f"{key}:") if key else None
        near = difflib.get_close_matches(key, ("vars", "children", "hosts"), n=1)
        ignored.append(f"{f'{place}: ' if place else ''}{warning}{f'; did you mean {near[0]}?' if near else ''}")
    return twice + ignored
