"""Measure what a container adds to a start on lab nodes: ranks `true` without one and in images, in turns. Needs root.

python benchmarks/container_start.py [--nodes 3] [--runs 5]

The images contain links alone, and /usr is mounted from the node, so that the size of an image does not count. Nodes
get bubblewrap and squashfuse by apt, and /dev/fuse.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from on_lab import asked, head, lab, pylaunch, row

LINKS = ("bin", "sbin", "lib", "lib64")
INSTALL = (
    "apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap squashfuse squashfs-tools"
    " && (test -e /dev/fuse || mknod /dev/fuse c 10 229)"
)
MAKE = " && ".join(
    [
        "mkdir -p /srv/image/usr /srv/image/etc /srv/image/root",
        *(f"ln -sfn usr/{name} /srv/image/{name}" for name in LINKS),
        "mksquashfs /srv/image /srv/image.sqsh -quiet -no-progress -all-time 0 -mkfs-time 0 > /dev/null",
    ]
)
KINDS = {"without a container": "", "directory": "/srv/image", "squashfs": "/srv/image.sqsh"}


def start(inventory: Path, image: str) -> float:
    """Return the seconds of a start, from its command to the proof that all nodes are clean."""
    container = ("--container", image, "--container-mount", "/usr:/usr:ro") if image else ()
    began = time.perf_counter()
    words = ("--no-check", "--framework", "command", "--workdir", "/", *container, "--", "true")
    pylaunch("start", "-i", str(inventory), *words)
    return time.perf_counter() - began


def main() -> None:
    """Measure and print a table."""
    given = asked(__doc__, 5)
    with lab(given.nodes) as inventory:
        for number in range(given.nodes):
            name = f"bench{os.getpid()}"
            command = (
                sys.executable,
                "-m",
                "lab",
                "ssh",
                "--name",
                name,
                f"n{number + 1}",
                "--",
                f"{INSTALL} && {MAKE}",
            )
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for run in range(given.runs + 1):
            for kind, image in KINDS.items():
                took = start(inventory, image)
                if run:  # The first ones install the agent, and read the images.
                    seconds[kind].append(took)
        head()
        for kind, found in seconds.items():
            row(kind, found)


if __name__ == "__main__":
    main()
