"""The agent's command line. Each verb prints one JSON object, or speaks the wire, or is a rank."""

import os
import stat
import sys
import zlib

CHECKSUM = 8
"""Hexadecimal digits before what was compiled: the name of the archive is checked by who calls it, this file is not."""


def compiled(archive: str, *, may_make: bool) -> str:
    """Where the modules of `archive` are that need no compiling, or the archive itself."""
    kept = f"{archive}.{sys.implementation.cache_tag}"
    if may_make and not is_whole(kept):
        from pylaunch.agent.compiled import keep  # noqa: PLC0415 -- the once that it is needed

        keep(archive, kept)
    return kept if is_whole(kept) else archive


def is_whole(path: str) -> bool:
    """Return whether `path` is a file that we alone can write, and begins with the checksum of its rest."""
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            return False
        with open(path, "rb") as source:
            return int(source.read(CHECKSUM), 16) == zlib.crc32(source.read())
    except (OSError, ValueError):
        return False


if __name__ == "__main__":
    # `node` runs from where Ansible put the archive, `rank` where `open` ran before.
    sys.path[0] = compiled(sys.path[0], may_make=sys.argv[1:2] not in (["node"], ["rank"]))
    if sys.argv[1:] == ["rank"]:
        from pylaunch.agent.run.rank_entry import main
    else:
        from pylaunch.agent.commands import main
    sys.exit(main())
