"""Errors of an inventory source: Ansible's own words about it, and values of a host of which Ansible keeps the last.

Ansible tries its parsers one after the other and reports the failure of each. The relevant one is the first that is not
just "this is not my format".
"""

import re
import shlex

from pylaunch.inventory.keys import ALIASES, KEYS

_NOT_MY_FORMAT = "no root 'plugin' key found"
_BLOCK = re.compile(r"^\[(?:WARNING|ERROR)\]: ", re.MULTILINE)
_FAILED = re.compile(r"Failed to parse inventory with '\w+' plugin: (?:Failed to parse inventory: )?(.*)")
_ORIGIN = re.compile(r"^Origin: (?:<inventory plugin '\w+' with source '(.*)'>|(.*?))$", re.MULTILINE)
_SCRIPT_STDERR = "Standard error from inventory script:\n"
_SKIPPED = re.compile(r"^\[WARNING\]: (Skipping .*)$", re.MULTILINE)
_DUPLICATE = re.compile(r"^\[WARNING\]: Found (duplicate mapping key .*)\.\nOrigin: (.*?:\d+)", re.MULTILINE)

_INI_HOST = re.compile(r"([^\s=\[{#;:]+)\s+[^\s=].*=")
"""Line of a host with variables in an INI inventory."""


def unparsed(stderr: str, directory: str) -> list[str]:
    """Return one line per file that Ansible could not parse, and what an inventory script printed."""
    lines: dict[str, list[str]] = {}
    for block in _BLOCK.split(stderr):
        failed, origin = _FAILED.search(block), _ORIGIN.search(block)
        if failed is None or origin is None or failed[1].startswith(_NOT_MY_FORMAT):
            continue
        place = (origin[1] or origin[2]).removeprefix(f"{directory}/")
        file, _, position = place.partition(":")
        message = failed[1] if failed[1] != "Failed to parse inventory." else _cause(block)
        at = f"{file}:{position.split(':')[0]}" if position else file
        printed = block.partition(_SCRIPT_STDERR)[2].strip().splitlines()
        lines.setdefault(file, [f"{at}: {message.rstrip('.')}", *printed])
    if lines:
        return [line for group in lines.values() for line in group]
    return [line.removeprefix("[ERROR]: ") for line in stderr.splitlines() if line.strip()][-5:]


def _cause(block: str) -> str:
    """Return the innermost cause of a chain."""
    return block.split("<<< caused by >>>")[-1].strip().splitlines()[0]


def ignored(stderr: str, directory: str) -> list[str]:
    """Return the parts of the inventory that Ansible ignored with a warning."""
    twice = [f"{place.removeprefix(f'{directory}/')}: {warning}" for warning, place in _DUPLICATE.findall(stderr)]
    return twice + _SKIPPED.findall(stderr)


def contradictions(text: str) -> list[str]:
    """Return `line 3: n1: gpus: 4, but 8 in line 2` for each line (INI) that gives a key of a host another value.

    Ansible silently keeps the last value; with two addresses, one of two machines would not take part. Variables that
    pylaunch does not read may have several, as in Ansible.
    """
    before: dict[tuple[str, str], tuple[str, int]] = {}
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _INI_HOST.match(line)
        for name, value in _variables(line) if match is not None else ():
            if match is None or (name not in KEYS and name not in ALIASES):
                continue
            known, earlier = before.setdefault((match[1], name), (value, number))
            if known != value:
                found.append(f"line {number}: {match[1]}: {name}: {value}, but {known} in line {earlier}")
    return found


def _variables(line: str) -> list[tuple[str, str]]:
    """Return the variables in a line of a host, split as Ansible splits it; none if unsure."""
    try:
        words = shlex.split(line, comments=True)[1:]
    except ValueError:
        return []
    return [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]
