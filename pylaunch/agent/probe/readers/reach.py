"""Identity of a host, and how it resolves its own name and those of its peers."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import interfaces

if TYPE_CHECKING:
    from pylaunch.agent.probe.readings import HostIdentity, NamesReading

SUDO_S = 4.0
LOOKUPS = 16
"""Lookups at the same time: each takes seconds if the name server is down."""


@reader("reach.identity")
def identity(question: None) -> HostIdentity:
    """Return names and numbers that identify this host. `network` is equal for hosts in one network namespace."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {
        "hostname": socket.gethostname(),
        "python": platform.python_version(),
        "uid": os.getuid(),
        "addresses": sorted(interfaces.address_owners()),
        "network": f"{boot} {os.stat('/proc/self/ns/net').st_ino}",
    }


@reader("reach.names")
def names(question: list[str]) -> NamesReading:
    """Return the addresses of the own name and of each name in `question`, IPv4 first; None if unresolved."""
    own = socket.gethostname()
    wanted = list(dict.fromkeys([own, *question]))
    with ThreadPoolExecutor(LOOKUPS) as pool:
        found = {name: pool.submit(_addresses, name) for name in wanted}
        return {"own": own, "addresses": {name: future.result() for name, future in found.items()}}


def _addresses(name: str) -> list[str] | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return sorted({str(each[4][0]) for each in found}, key=lambda address: (":" in address, address))


@reader("reach.sudo")
def sudo(question: None) -> str | None:
    """Return the reason why this user cannot become root without a password; None if they can."""
    if os.getuid() == 0:
        return None
    try:
        ended = subprocess.run(
            ["sudo", "-n", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=SUDO_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return "there is no sudo"
    output = ended.stdout.decode("utf-8", "replace").strip().splitlines()
    return None if ended.returncode == 0 else (output[-1] if output else f"exit code {ended.returncode}")
