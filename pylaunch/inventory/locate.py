"""Find the line that sets a key of a host in the inventory's files. Ansible does not report it.

The result is None unless exactly one line fits: no line is better than a wrong one.
"""

import re
import shlex
from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.inventory.keys import ALIASES, KEYS
from pylaunch.model.hostset import expand

_INI_HOST = re.compile(r"([^\s=\[{#;:]+)\s+[^\s=].*=")
"""Line of a host with variables in an INI inventory."""

_NAME = re.compile(r"[A-Za-z_]\w*")


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
    lines = [line for name, text in files.items() for line in lines_of(name, text)]
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


def contradictions(files: Mapping[str, str]) -> list[str]:
    """Return `cluster.ini:3: n1: gpus: 4, but 8 in line 2` for each line (INI) that gives a key of a host another value
    than a line before it.

    Ansible silently keeps the last value; with two addresses, one of two machines would not take part. Variables that
    pylaunch does not read may have several, as in Ansible.
    """
    before: dict[tuple[str, str], tuple[str, Line]] = {}
    found = []
    for line in (line for name, text in files.items() if not name.endswith(_OTHERS) for line in lines_of(name, text)):
        match = _INI_HOST.match(line.text)
        host = "" if match is None else match[1]
        for name, value in _variables(line.text).items() if host else ():
            if name not in KEYS and name not in ALIASES:
                continue
            known, earlier = before.setdefault((host, name), (value, line))
            if known != value:
                found.append(f"{line.place}: {host}: {name}: {value}, but {known} in line {earlier.number}")
    return found


_OTHERS = (".yml", ".yaml", ".json", ".toml")


def _variables(text: str) -> dict[str, str]:
    """Return the variables in a line of a host, split as Ansible splits it; none if unsure."""
    try:
        words = shlex.split(text, comments=True)[1:]
    except ValueError:
        return {}
    given = dict(word.split("=", 1) for word in words if "=" in word)
    return {name: value for name, value in given.items() if _NAME.fullmatch(name)}


def place_of_text(files: Mapping[str, str], excerpt: str) -> str | None:
    """Return `file:line` of the only line with `excerpt` in it; None when there are several."""
    found = [line.place for name, text in files.items() for line in lines_of(name, text) if excerpt in line.text]
    return found[0] if len(found) == 1 else None


def lines_of(file: str, text: str) -> list[Line]:
    """Return the lines of a file without blank ones and comments."""
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
    return pattern == host or any(host in _hosts(name) for name in (pattern, *line.parents))


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
