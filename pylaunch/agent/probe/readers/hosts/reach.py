"""Identity of a host and its user, variables of a login, and how the host resolves its name and those of its peers."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import sys
import threading
import time

from pylaunch.agent.probe.readers.hosts.host import mount_of
from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_of, text_or_none
from pylaunch.protocol.readings.hosts import HostIdentity, LoginReading, NamesReading

COMMUNICATION = (
    "NCCL_", "TORCH", "PYTORCH_", "GLOO_", "TP_", "CUDA_", "NVIDIA_", "OMP_", "MKL_", "KMP_", "UCX_", "FI_", "RDMAV_",
    "JAX_", "XLA_", "TF_", "HF_", "ACCELERATE_", "DS_", "DEEPSPEED_", "PYTHON", "LD_", "MALLOC_", "WORLD_SIZE", "RANK",
    "LOCAL_RANK", "MASTER_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "PATH",
)  # fmt: skip
"""Prefixes of variables that change what a rank computes or its communication."""


@reader("login.variables")
def variables(question: None) -> dict[str, str]:
    """Return the variables of a login that affect ranks."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(COMMUNICATION)}


@reader("login.identity")
def user(question: None) -> LoginReading:
    """Return the user and the home directory of a login."""
    uid = os.getuid()
    user = pwd.getpwuid(uid)
    home = mount_of(user.pw_dir)
    umask = os.umask(0)
    os.umask(umask)
    return {
        "user": user.pw_name,
        "uid": uid,
        "gid": os.getgid(),
        "groups": sorted(f"{group_name(number)}({number})" for number in {os.getgid(), *os.getgroups()}),
        "home_type": home["type"],
        "umask": f"{umask:04o}",
    }


def group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return "?"


LOOKUPS_S = 2.5
"""Time for all lookups together, half of the default timeout of a resolver for one query."""

SLICE_S = 0.1
"""Most that one look at the lookups takes from their time: a pause of this process is no silence of a name server."""


@reader("reach.identity")
def identity(question: None) -> HostIdentity:
    """Return names and numbers that identify this host. `network` is equal for hosts in one network namespace."""
    boot = text_of("/proc/sys/kernel/random/boot_id").strip()
    release = (text_or_none("/etc/os-release") or "").splitlines()
    name = next((line for line in release if line.startswith("PRETTY_NAME=")), "")
    return {
        "hostname": socket.gethostname(),
        "system": name.partition("=")[2].strip('"'),
        "python": sys.version.split()[0],
        "uid": os.getuid(),
        "addresses": sorted(interfaces.address_owners()),
        "network": f"{boot} {os.stat('/proc/self/ns/net').st_ino}",
    }


@reader("reach.names")
def names(question: list[str]) -> NamesReading:
    """Return the addresses of the own name and of each name in `question`, IPv4 first; None if unresolved.

    Each name is looked up in a thread of its own. A question has few names: the lookups of all hosts reach the name
    server at the same time.
    """
    interfaces.repeat_queries_soon()
    own = socket.gethostname()
    wanted = list(dict.fromkeys([own, *question]))
    found: dict[str, list[str] | None] = {}

    def look_up(name: str) -> None:
        found[name] = _addresses(name)

    lookups = [threading.Thread(target=look_up, args=(name,), daemon=True) for name in wanted]
    for each in lookups:
        each.start()
    left_s = LOOKUPS_S
    for each in lookups:
        while each.is_alive() and left_s > 0:
            begun = time.monotonic()
            each.join(SLICE_S)
            left_s -= min(SLICE_S, time.monotonic() - begun)
    answered = dict(found)  # A thread may still add its name.
    return {
        "own": own,
        "addresses": {name: answered[name] for name in wanted if name in answered},
        "unanswered": [name for name in wanted if name not in answered],
    }


def _addresses(name: str) -> list[str] | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: the name is no domain name.
        return None
    return sorted({str(each[4][0]) for each in found}, key=lambda address: (":" in address, address))
