"""Entry point of the agent archive: run a verb, or one rank, from precompiled modules where there are any."""

import gc
import os
import stat
import sys


def compiled(archive: str, *, may_make: bool) -> str:
    """Return the path of the compiled modules of `archive`, or `archive` if there are none."""
    kept = f"{archive}.{sys.implementation.cache_tag}"
    if may_make and not is_ours(kept):
        from pylaunch.agent.compiled import keep  # noqa: PLC0415 -- needed once per node and version

        keep(archive, kept)
    return kept if is_ours(kept) else archive


def is_ours(path: str) -> bool:
    """Return whether `path` is a file that only this user can write."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


if __name__ == "__main__":
    gc.disable()  # Modules live as long as the process.
    # `node` runs from a temporary copy of the archive, and `open` has compiled it before `rank` runs.
    sys.path[0] = compiled(sys.path[0], may_make=sys.argv[1:2] not in (["node"], ["rank"]))
    if sys.argv[1:] == ["rank"]:
        from pylaunch.agent.run.rank_entry import main
    else:
        from pylaunch.agent.commands import main
    gc.freeze()
    gc.enable()
    sys.exit(main())
