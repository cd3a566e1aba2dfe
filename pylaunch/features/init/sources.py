"""Hosts in the texts that people have.

gpu[01-04]                       a host set, also that of SLURM_JOB_NODELIST
train@10.0.0.1:2222              user, address and SSH port of a word
gpu01 slots=8 / gpu01:8          a line of a hostfile of MPI or DeepSpeed; pylaunch counts the devices itself
10.0.0.1 gpu01                   a line of /etc/hosts
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.cluster import Host, SshOptions
from pylaunch.model.hostset import expand, is_address
from pylaunch.model.text.quantity import shown_size

LONGEST_TEXT = 1 << 20
"""Bytes of a hostfile."""

_WORD = re.compile(r"(?:([\w.-]+)@)?((?!-)[\w.-]+)(?::(\d{1,5}))?")
_COUNTED = re.compile(r"([^\s:=\[\]]+|\S*\[[\d,-]+\][^\s:=]*):\d{1,4}")
_SLOTS = re.compile(r"(?:max[_-])?slots=\d{1,6}")


@dataclass(frozen=True)
class NamedHosts:
    """Hosts of texts, each once, and all errors."""

    hosts: tuple[Host, ...]
    complaints: tuple[str, ...] = ()


def named_hosts(words: Sequence[str], hostfile: Path | None) -> NamedHosts:
    """Return the hosts that the words of a command line and a hostfile name."""
    readings = [in_words(words)]
    if hostfile is not None:
        readings.append(_of_file(hostfile))
    hosts: dict[str, Host] = {}
    complaints: list[str] = []
    for reading in readings:
        complaints += reading.complaints
        for each in reading.hosts:
            known = hosts.setdefault(each.name, each)
            if known != each:
                complaints.append(f"{each.name} is named twice: {_shown(known)} and {_shown(each)}")
    return NamedHosts(tuple(hosts.values()), tuple(dict.fromkeys(complaints)))


def _of_file(file: Path) -> NamedHosts:
    try:
        with file.open("rb") as source:
            data = source.read(LONGEST_TEXT + 1)
    except OSError as error:
        return NamedHosts((), (f"--from-hostfile {file}: cannot be read: {error.strerror}",))
    if len(data) > LONGEST_TEXT:
        return NamedHosts((), (f"--from-hostfile {file}: longer than {shown_size(LONGEST_TEXT)}",))
    return in_text(data.decode("utf-8", "replace"), file.name)


def in_words(words: Sequence[str]) -> NamedHosts:
    """Read the words of a command line."""
    return _read(("", [word]) for word in words)


def in_text(text: str, origin: str) -> NamedHosts:
    """Read a hostfile, or lines of names and addresses. Complaints begin with `origin:line`."""
    lines = ((number, line.partition("#")[0].split()) for number, line in enumerate(text.splitlines(), 1))
    return _read((f"{origin}:{number}: ", words) for number, words in lines if words)


def _read(lines: Iterable[tuple[str, Sequence[str]]]) -> NamedHosts:
    """Read lines of words, each with the beginning of its complaint: "" for words of a command line."""
    hosts: list[Host] = []
    complaints: list[str] = []
    for where, words in lines:
        try:
            hosts += _of_line(words) if where else map(_named, expand(words[0]))
        except ValueError as error:
            complaints.append(f"{where}{error}")
    return NamedHosts(tuple(hosts), tuple(complaints))


def _shown(host: Host) -> str:
    user = f"{host.ssh.user}@" if host.ssh.user else ""
    return f"{user}{host.address}" + (f":{host.ssh.port}" if host.ssh.port else "")


def _named(word: str) -> Host:
    found = _WORD.fullmatch(word)
    if found is None:
        if is_address(word):
            raise ValueError(f"{word}: an IPv6 address needs a name; in a file: {word} NAME")
        raise ValueError(f"{word!r} is not a host: expected NAME, USER@NAME or NAME:PORT")
    user, name, port = found.groups()
    if port is not None and not 1 <= int(port) <= 65535:
        raise ValueError(f"{word}: expected a port from 1 to 65535")
    return Host(name, name, ssh=SshOptions(user, None if port is None else int(port)))


def _of_line(words: Sequence[str]) -> Iterator[Host]:
    """Yield the hosts of a line of names, of a hostfile, or of /etc/hosts."""
    names = [word for word in words if not _SLOTS.fullmatch(word)]
    if len(names) > 1 and is_address(names[0]):
        yield replace(_named(names[1]), address=names[0])
        return
    for name in names:
        counted = _COUNTED.fullmatch(name)
        yield from map(_named, expand(name if counted is None else counted[1]))
