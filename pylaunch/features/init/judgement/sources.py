"""Hosts in the texts that people have: words, hostfiles, /etc/hosts, ~/.ssh/config. Pure.

gpu[01-04]                       a host set, also that of SLURM_JOB_NODELIST
train@10.0.0.1:2222              user, address and SSH port of a word
gpu01 slots=8 / gpu01:8          a hostfile of MPI or DeepSpeed
10.0.0.1 gpu01                   a line of /etc/hosts
"""

import fnmatch
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.hostset import expand, is_address

LONGEST_TEXT = 1 << 20
"""Bytes of one text."""

_WORD = re.compile(r"(?:([\w.-]+)@)?((?!-)[\w.-]+)(?::(\d{1,5}))?")
_COUNTED = re.compile(r"([^\s:=\[\]]+|\S*\[[\d,-]+\][^\s:=]*):(\d{1,4})")
_SLOTS = re.compile(r"(?:max[_-])?slots=(\d{1,6})")


@dataclass(frozen=True)
class NamedHost:
    """A host as a text names it; None for what the text leaves to OpenSSH's configuration."""

    name: str
    address: str | None = None
    user: str | None = None
    port: int | None = None
    slots: int | None = None
    """Ranks or devices that the text gives the host."""


@dataclass(frozen=True)
class SourceReading:
    """Hosts of a text in its order, and its errors."""

    hosts: tuple[NamedHost, ...]
    complaints: tuple[str, ...] = ()


def in_words(words: Sequence[str]) -> SourceReading:
    """Read the words of a command line."""
    hosts: list[NamedHost] = []
    complaints: list[str] = []
    for word in words:
        try:
            hosts += [_named(each) for each in expand(word)]
        except ValueError as error:
            complaints.append(str(error))
    return SourceReading(tuple(hosts), tuple(complaints))


def in_text(text: str, origin: str) -> SourceReading:
    """Read a hostfile, or lines of names and addresses. Complaints begin with `origin:line`."""
    hosts: list[NamedHost] = []
    complaints: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            if words:
                hosts += _of_line(words)
        except ValueError as error:
            complaints.append(f"{origin}:{number}: {error}")
    return SourceReading(tuple(hosts), tuple(complaints))


def ssh_words(line: str) -> tuple[str, list[str]]:
    """Return the keyword in lower case and the arguments of a line of ssh_config(5); arguments may have quotes."""
    keyword, _, rest = re.sub(r"\s*[\s=]\s*", " ", line.strip(), count=1).partition(" ")
    try:
        return keyword.lower(), shlex.split(rest)
    except ValueError:
        return keyword.lower(), rest.split()


def in_ssh_config(lines: Iterable[str], pattern: str) -> SourceReading:
    """Return the names after `Host` in lines of ~/.ssh/config that match `pattern`; OpenSSH knows the rest itself."""
    names: dict[str, None] = {}
    for line in lines:
        keyword, words = ssh_words(line)
        if keyword == "host":
            names |= dict.fromkeys(each for each in words if not re.search(r"[*?!]", each))
    matching = [name for name in names if any(fnmatch.fnmatchcase(name, each) for each in _patterns(pattern))]
    if not matching:
        return SourceReading((), (f"no Host of ~/.ssh/config matches {pattern}",))
    return in_words(matching)


def merged(readings: Iterable[SourceReading]) -> SourceReading:
    """Return the hosts of all texts, each once, and all errors: also two addresses for one name."""
    hosts: dict[str, NamedHost] = {}
    complaints: list[str] = []
    for reading in readings:
        complaints += reading.complaints
        for each in reading.hosts:
            known = hosts.setdefault(each.name, each)
            if (known.address, known.user, known.port) != (each.address, each.user, each.port):
                complaints.append(f"{each.name} is named twice: {_shown(known)} and {_shown(each)}")
    return SourceReading(tuple(hosts.values()), tuple(dict.fromkeys(complaints)))


def _patterns(pattern: str) -> tuple[str, ...]:
    return tuple(each for part in pattern.split(",") for each in ([part] if re.search(r"[*?]", part) else expand(part)))


def _shown(host: NamedHost) -> str:
    user = f"{host.user}@" if host.user else ""
    return f"{user}{host.address or host.name}" + (f":{host.port}" if host.port else "")


def _named(word: str) -> NamedHost:
    found = _WORD.fullmatch(word)
    if found is None:
        address, _, port = word.removeprefix("[").partition("]") if word.startswith("[") else (word, "", "")
        if is_address(address):
            more = f", and Port {port[1:]} in ~/.ssh/config" if port else ""
            raise ValueError(f"{word}: an IPv6 address needs a name; in a file: {address} NAME{more}")
        raise ValueError(f"{word!r} is not a host: expected NAME, USER@NAME or NAME:PORT")
    user, name, port = found.groups()
    if port is not None and not 1 <= int(port) <= 65535:
        raise ValueError(f"{word}: expected a port from 1 to 65535")
    return NamedHost(name, user=user, port=None if port is None else int(port))


def _of_line(words: Sequence[str]) -> Iterator[NamedHost]:
    """Yield the hosts of a line of names, of a hostfile, or of /etc/hosts."""
    if is_address(words[0]) and len(words) > 1 and not _is_count(words[1]):
        yield replace(_named(words[1]), address=words[0])
        return
    first = _COUNTED.fullmatch(words[0])
    counts = [_count(each) for each in words if _is_count(each)]
    slots = next((each for each in counts if each is not None), None if first is None else int(first[2]))
    names = [words[0] if first is None else first[1], *(each for each in words[1:] if not _is_count(each))]
    for name in names:
        yield from (replace(_named(each), slots=slots) for each in expand(name))


def _is_count(word: str) -> bool:
    return _SLOTS.fullmatch(word) is not None


def _count(word: str) -> int | None:
    found = None if word.startswith("max") else _SLOTS.fullmatch(word)
    return None if found is None else int(found[1])
