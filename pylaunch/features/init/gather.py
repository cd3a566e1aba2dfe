"""Read the texts that name hosts: words, stdin, a hostfile, ~/.ssh/config, another inventory."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pylaunch.base.dataclass import dataclass
from pylaunch.features.init.judgement import sources
from pylaunch.features.init.judgement.sources import LONGEST_TEXT, NamedHost, SourceReading
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Host, SshOptions
from pylaunch.model.text.size import shown_size

STDIN = "-"
SSH_CONFIG = Path(".ssh/config")
_DEEPEST_INCLUDE = 8


@dataclass(frozen=True)
class GatheredHosts:
    """Hosts of all sources, each once, with all errors."""

    hosts: tuple[Host, ...]
    slots: Mapping[str, int]
    """Ranks or devices that a hostfile or Slurm gives a host."""

    complaints: tuple[str, ...]


def gathered(
    words: Sequence[str], hostfile: Path | None, ssh_config: str | None, inventory: Path | None
) -> GatheredHosts:
    """Return the hosts that `words`, a hostfile, names of ~/.ssh/config (a pattern) and an inventory name."""
    readings = [sources.in_words([each for each in words if each != STDIN])]
    if STDIN in words:
        readings.append(_of_text(sys.stdin.buffer.read(LONGEST_TEXT + 1), "stdin"))
    if hostfile is not None:
        readings.append(_of_file(hostfile))
    if ssh_config is not None:
        file = Path.home() / SSH_CONFIG
        readings.append(sources.in_ssh_config(_with_includes(file, file.parent), ssh_config))
    named = sources.merged(readings)
    known = load_cluster(inventory).hosts if inventory is not None else ()
    hosts = {each.name: each for each in (*map(_host, named.hosts), *known)}
    return GatheredHosts(
        tuple(hosts.values()),
        {each.name: each.slots for each in named.hosts if each.slots is not None},
        named.complaints,
    )


def _host(named: NamedHost) -> Host:
    return Host(named.name, named.address or named.name, ssh=SshOptions(named.user, named.port))


def _of_file(file: Path) -> SourceReading:
    try:
        with file.open("rb") as source:
            return _of_text(source.read(LONGEST_TEXT + 1), file.name)
    except OSError as error:
        return SourceReading((), (f"--from-hostfile {file}: cannot be read: {error.strerror}",))


def _of_text(data: bytes, origin: str) -> SourceReading:
    if len(data) > LONGEST_TEXT:
        return SourceReading((), (f"{origin}: longer than {shown_size(LONGEST_TEXT)}",))
    return sources.in_text(data.decode("utf-8", "replace"), origin)


def _with_includes(file: Path, directory: Path, seen: tuple[Path, ...] = ()) -> Iterator[str]:
    """Yield the lines of a configuration of OpenSSH, with those of the files that it includes.

    `seen` are the files whose includes lead to this one.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            lines = text.read(LONGEST_TEXT).splitlines()
    except OSError:
        return
    for line in lines:
        keyword, words = sources.ssh_words(line)
        if keyword != "include" or len(seen) == _DEEPEST_INCLUDE:
            yield line
            continue
        for pattern in words:
            try:
                included = Path(pattern).expanduser()
            except RuntimeError:  # The home of an unknown user; OpenSSH omits it, too.
                continue
            root = Path(included.anchor) if included.is_absolute() else directory
            relative = str(included.relative_to(root)) if included.is_absolute() else pattern
            for each in sorted(root.glob(relative)):
                if each != file and each not in seen:
                    yield from _with_includes(each, directory, (*seen, file))
