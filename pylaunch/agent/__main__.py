"""The agent's command line. Each verb prints one JSON object, or speaks the wire, or is a rank."""

import os
import stat
import sys


def compiled(archive: str, *, may_make: bool) -> str:
    """Where the modules of `archive` are that need no compiling, or the archive itself."""
    kept = "%s.%s" % (archive, sys.implementation.cache_tag)
    if may_make and not os.path.exists(kept):
        from pylaunch.agent.compiled import keep  # noqa: PLC0415 -- the once that it is needed

        keep(archive, kept)
    try:
        found = os.stat(kept)
    except OSError:
        return archive
    # What is not ours would be a way into our processes, where others may write beside the archive.
    return kept if stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() else archive


if __name__ == "__main__":
    # `node` runs from where Ansible put the archive, `rank` where `open` ran before.
    sys.path[0] = compiled(sys.path[0], may_make=sys.argv[1:2] not in (["node"], ["rank"]))
    if sys.argv[1:] == ["rank"]:
        from pylaunch.agent.shim import main
    else:
        from pylaunch.agent.commands import main
    sys.exit(main())
