"""Programs that real nodes need on this machine, and their installation."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from lab import locks
from lab.nodes import cgroup
from lab.spec import SYSTEM_LABS
from pylaunch.errors import LabError
from pylaunch.transport import process

Report = Callable[[str], None]
"""Callback that receives one line for every slow step."""

PACKAGE_OF = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "ssh": "openssh-client",
    "systemd-nspawn": "systemd-container",
}
"""Program → the Debian package that has it. The rest is in util-linux, which is always installed."""


def obstacle() -> str | None:
    """Return the reason why this machine cannot have real nodes; None when it can."""
    if os.geteuid() != 0:
        return "real nodes need root"
    if missing() and process.program_path("apt-get") is None:
        return f"{', '.join(missing())} not found, and there is no apt-get to install it"
    if cgroup.here() is None:
        return "the cgroup version 2 hierarchy is not mounted"
    SYSTEM_LABS.mkdir(parents=True, exist_ok=True)
    if _file_system(SYSTEM_LABS) == "overlay":
        return f"{SYSTEM_LABS} is on an overlay file system, which cannot carry another one"
    return None


def missing() -> tuple[str, ...]:
    """Return the programs that are not installed."""
    return tuple(program for program in PACKAGE_OF if process.program_path(program) is None)


def ensure(report: Report) -> None:
    """Install what is missing and report it. Raises LabError when apt cannot."""
    if not missing():
        return
    # apt-get does not wait for another apt-get.
    with locks.changing("tools"):
        if wanted := [PACKAGE_OF[program] for program in missing()]:
            _install(wanted, report)


def _install(packages: Sequence[str], report: Report) -> None:
    report(f"installing with apt (they stay installed): {' '.join(packages)}")
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    process.run(("apt-get", "update", "-q"), env=quietly).checked(error=LabError)
    process.run(("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages), env=quietly).checked(
        error=LabError, hint=f"apt-get install {' '.join(packages)}"
    )


def _file_system(path: Path) -> str:
    """Return the type of the file system that holds `path`."""
    return process.run(("stat", "-f", "-c", "%T", str(path))).checked(error=LabError).stdout.strip().removesuffix("fs")
