"""Identity of a host and its user, variables of a login, and how the host resolves names of its peers."""

from __future__ import annotations

import os
import pwd
import socket
import threading
import time

from pylaunch.agent.probe.readers.hosts.host import mount_of
from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_of, text_or_none
from pylaunch.protocol.readings.hosts import HostIdentity, LoginReading

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
    home_type = mount_of(user.pw_dir)[1]
    return {
        "user": user.pw_name,
        "uid": uid,
        "gid": os.getgid(),
        "home_type": home_type,
    }


@reader("reach.identity")
def identity(question: None) -> HostIdentity:
    """Return names and numbers that identify this host. `network` is equal for hosts in one network namespace."""
    boot = text_of("/proc/sys/kernel/random/boot_id").strip()
    release = (text_or_none("/etc/os-release") or "").splitlines()
    name = next((line for line in release if line.startswith("PRETTY_NAME=")), "")
    return {
        "hostname": socket.gethostname(),
        "system": name.partition("=")[2].strip('"'),
        "addresses": sorted(interfaces.address_owners()),
        "network": f"{boot} {os.stat('/proc/self/ns/net').st_ino}",
    }


LOOKUPS_S = 2.5
"""Time for all lookups together, half of the default timeout of a resolver for one query."""


@reader("reach.names")
def names(question: list[str]) -> dict[str, list[str] | None]:
    """Return the addresses of each name in `question`, IPv4 first; None if it does not resolve within LOOKUPS_S.

    Each name is looked up in a thread of its own: a name server that does not answer costs its names only.
    """
    interfaces.repeat_queries_soon()
    found: dict[str, list[str] | None] = {}

    def look_up(name: str) -> None:
        found[name] = _addresses(name)

    lookups = [threading.Thread(target=look_up, args=(name,), daemon=True) for name in question]
    for each in lookups:
        each.start()
    until = time.monotonic() + LOOKUPS_S
    for each in lookups:
        each.join(max(0.0, until - time.monotonic()))
    answered = dict(found)  # A thread may still add its name.
    return {name: answered.get(name) for name in question}


def _addresses(name: str) -> list[str] | None:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # UnicodeError: the name is no domain name.
        return None
    return sorted({str(each[4][0]) for each in found}, key=lambda address: (":" in address, address))
