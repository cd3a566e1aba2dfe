"""Become a node's nspawn: join the node's cgroup, mount its root in a private mount namespace, and exec.

Run as `python -m lab.nodes.supervise CGROUP LOWER NODE_DIRECTORY nspawn-words…` in a mount
namespace of its own.
"""

import contextlib
import os
import resource
import sys
from pathlib import Path

from lab.spec import NodePaths
from pylaunch.errors import LabError
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process


def mount_options(lower: Path, node: NodePaths) -> str:
    """Return the options of the overlay. Raises LabError for paths that the option syntax cannot express."""
    for path in (lower, node.directory):
        if any(character in str(path) for character in ",:\\"):
            raise LabError(f"overlayfs cannot use a path with a comma, colon or backslash: {path}")
    return f"lowerdir={lower},upperdir={node.upper},workdir={node.work}"


def main(cgroup: Path, lower: Path, node: NodePaths, nspawn: Argv) -> None:
    """Replace this process by nspawn."""
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    # As on a real machine, where root may lock all memory. Not allowed without CAP_SYS_RESOURCE; then the limit stays.
    with contextlib.suppress(ValueError, PermissionError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)
    process.run(
        ("mount", "-t", "overlay", "overlay", "-o", mount_options(lower, node), str(node.root))
    ).checked(error=LabError)  # fmt: skip
    os.execvp(nspawn[0], nspawn)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), NodePaths(Path(sys.argv[3])), tuple(sys.argv[4:]))
