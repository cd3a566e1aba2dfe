"""Find the line that sets a key of a host in the inventory's files. Ansible does not report it.

The result is None unless exactly one line fits: no line is better than a wrong one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.hostset import expand

_ADDRESS = "ansible_host="
_INI_HOST = re.compile(rf"([^\s=\[{{#;]+)\s.*{_ADDRESS}")
"""Line of a host in an INI inventory."""


@dataclass(frozen=True)
class Line:
    """One line of an inventory file, with the YAML keys above it."""

    file: str
    number: int
    text: str
    parents: tuple[str, ...]

    @property
    def place(self) -> str:
        """The location as editors and compilers write it."""
        return f"{self.file}:{self.number}"


def place_of(files: Mapping[str, str], host: str, key: str | None, value: object) -> str | None:
    """Return `file:line` where `key` is set for `host`, or without a key, where `host` is listed; None when unsure."""
    lines = [line for name, text in files.items() for line in _lines(name, text)]
    if key is None:
        candidates = [line for line in lines if _names_host(line, host)]
    else:
        setting = re.compile(rf"""(?:^|[\s{{,])["']?{re.escape(key)}["']?\s*[=:]\s*(.*)""")
        found = [(line, match[1]) for line in lines if (match := setting.search(line.text))]
        same_value = [line for line, rest in found if _starts_with(rest, value)]
        candidates = same_value or [line for line, _ in found]
        own = [line for line in candidates if _names_host(line, host) or _is_file_of(line, host)]
        candidates = own or candidates
    return candidates[0].place if len(candidates) == 1 else None


def contradicted_addresses(files: Mapping[str, str]) -> list[str]:
    """Return `cluster.ini:3: n1: …` for each line (INI) that gives a host another address than a line before it.

    Ansible silently keeps the last address, so one of two machines would not take part.
    """
    before: dict[str, tuple[str, Line]] = {}
    found = []
    for line in (line for name, text in files.items() for line in _lines(name, text)):
        match = _INI_HOST.match(line.text)
        address = None if match is None else _address(line.text)
        if match is None or address is None:
            continue
        known, earlier = before.setdefault(match[1], (address, line))
        if known != address:
            found.append(f"{line.place}: {match[1]}: ansible_host: {address}, but {known} in line {earlier.number}")
    return found


def _address(text: str) -> str | None:
    """Return the address in a line of a host, split as Ansible splits it; None if there is none, or if unsure."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return None
    given = [word.removeprefix(_ADDRESS) for word in words if word.startswith(_ADDRESS)]
    return given[-1] if given else None


def place_of_text(files: Mapping[str, str], excerpt: str) -> str | None:
    """Return `file:line` of the only line with `excerpt` in it; None when there are several."""
    found = [line.place for name, text in files.items() for line in _lines(name, text) if excerpt in line.text]
    return found[0] if len(found) == 1 else None


def _lines(file: str, text: str) -> list[Line]:
    lines = []
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        indent = len(line) - len(line.lstrip())
        above = [(depth, name) for depth, name in above if depth < indent]
        lines.append(Line(file, number, line, tuple(name for _, name in above)))
        if (mapping := re.match(r"""["']?([^"':]+)["']?\s*:""", stripped)) is not None:
            above.append((indent, mapping[1]))
    return lines


def _names_host(line: Line, host: str) -> bool:
    """Return whether the line concerns `host`: it begins with its name or range (INI), or is below its key (YAML)."""
    pattern = line.text.split()[0].strip("\"'").rstrip(":")
    return any(host in _hosts(name) for name in (pattern, *line.parents))


def _hosts(pattern: str) -> tuple[str, ...]:
    # Ansible writes ranges with a colon, `n[1:3]`, and accepts a port after the name.
    counted = re.sub(r"\[(\d+):(\d+)\]", r"[\1-\2]", pattern)
    try:
        return expand(re.sub(r":\d+$", "", counted))
    except ValueError:
        return ()


def _is_file_of(line: Line, host: str) -> bool:
    return re.search(rf"(^|/)host_vars/{re.escape(host)}(/|\.ya?ml$|\.json$|$)", line.file) is not None


def _starts_with(rest: str, value: object) -> bool:
    written = str(value) if not isinstance(value, list) else ",".join(map(str, value))
    return rest.lstrip("\"'[ ").replace(" ", "").startswith(written.replace(" ", ""))
