"""Facts that should be equal on all hosts of a cluster, managed by a role or not.

Each group of facts is a separate reader, so a hung GPU driver costs only its group. `python` is the interpreter of the
ranks on this host.
"""

from __future__ import annotations

import os
import pwd
import resource
import time
from typing import Dict, Optional

from pylaunch.agent.probe.altered import touched_files
from pylaunch.agent.probe.readers.devices import gpu
from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import essentials
from pylaunch.agent.shared.installed import MARKER, installed_digest
from pylaunch.agent.shared.programs import output_of, run_as_root
from pylaunch.agent.shared.text import listed, meminfo, text_of, text_or_none

Group = Dict[str, Optional[str]]

DEADLINE_S = 8.0
SLOW_DEADLINE_S = 20.0

FILES_LISTED = 20

LIMITS = {
    "memlock": (resource.RLIMIT_MEMLOCK, 1024),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "stack": (resource.RLIMIT_STACK, 1024),
}
"""Number and unit, as in limits.conf."""

SSHD = ("/usr/sbin/sshd", "-T", "-C", "user=root,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22")
SSHD_OPTIONS = ("MaxStartups", "MaxSessions")
PASSING_INTERFACES = (
    "lo", "veth", "docker", "br-", "virbr", "cali", "cni", "flannel", "tun", "tap", "ve-", "vb-", "vz-",
)  # fmt: skip
"""Prefixes of names of temporary interfaces, which containers and VPNs create."""


@reader("host_facts.own", DEADLINE_S)
def own(_question: None) -> Group:
    """Return the facts that differ between hosts: name, boot id and boot time."""
    booted = next(line.split()[1] for line in text_of("/proc/stat").splitlines() if line.startswith("btime"))
    return {
        "hostname": os.uname().nodename,
        "boot id": text_of("/proc/sys/kernel/random/boot_id").strip(),
        "booted": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(booted))),
    }


@reader("host_facts.system", DEADLINE_S)
def system(_question: None) -> Group:
    """Return distribution, kernel, time zone and locale."""
    release = dict(line.split("=", 1) for line in text_of("/etc/os-release").splitlines() if "=" in line)
    return {
        "os": release.get("PRETTY_NAME", "unknown").strip('"'),
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "timezone": timezone(),
        "locale": locale(),
    }


def timezone() -> str:
    """Return the name of the time zone; UTC if none was ever set."""
    if not os.path.lexists("/etc/localtime"):
        return "UTC"
    return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2] or "a copy in /etc/localtime"


def locale() -> str | None:
    """Return LANG of a login from the file of the distribution; None if it is not set."""
    for path in ("/etc/locale.conf", "/etc/default/locale"):
        for line in text_of(path).splitlines() if os.path.exists(path) else ():
            if line.startswith("LANG="):
                return line[len("LANG=") :].strip('"')
    return None


@reader("host_facts.hardware", DEADLINE_S)
def hardware(_question: None) -> Group:
    """Return processors, and memory in GiB: the last megabytes differ between boots."""
    rows = [line.partition(":") for line in text_of("/proc/cpuinfo").splitlines()]
    models = sorted({value.strip() for name, _, value in rows if name.strip() in ("model name", "CPU part")})
    return {
        "cpu model": ", ".join(models) or "unknown",
        "cpu count": str(os.cpu_count()),
        "memory GiB": str(round(meminfo()["MemTotal"] / (1 << 30))),
    }


@reader("host_facts.network", DEADLINE_S)
def network(_question: None) -> Group:
    """Return MTU, and speed in Mb/s, of the permanent interfaces."""
    found: Group = {}
    for name in listed("/sys/class/net"):
        if not name.startswith(PASSING_INTERFACES):
            found[f"{name} mtu"] = text_of(f"/sys/class/net/{name}/mtu").strip()
            # None if the driver reports none: the link is down, or not a physical one.
            found[f"{name} speed"] = text_or_none(f"/sys/class/net/{name}/speed")
    return found


@reader("host_facts.gpu", SLOW_DEADLINE_S)
def gpus(_question: None) -> Group:
    """Return the GPUs and the versions of their software; only a count of 0 without GPUs."""
    found = gpu.gpu_fact()
    if found is None:
        return {"gpu count": "0"}
    counted: dict[str, int] = {}
    for model in found["models"]:
        counted[model] = counted.get(model, 0) + 1
    return {
        "gpu count": str(found["gpus"]),
        "gpu models": ", ".join(f"{count} x {model}" for model, count in sorted(counted.items())),
        "gpu firmware": ", ".join(sorted(set(found["firmware"]))),
        "gpu driver": found["driver"],
        "gpu driver of libraries": found["library"],
        "gpu kernel module": "open" if found["open_module"] else "proprietary",
        "gpu persistence": found["persistence"],
        "nvswitch count": str(found["nvswitches"]),
        "fabric manager": found["fabric_manager"],
        "nvidia_peermem": "loaded" if found["peermem"] else "not loaded",
        "infiniband devices": str(found["infiniband"]),
    }


@reader("host_facts.environment", DEADLINE_S)
def environment(python: str) -> Group:
    """Return digest, interpreter and altered files of the ranks' environment, and the libraries that must agree."""
    place = essentials.environment_of(python)
    return {
        "python": os.path.realpath(python) if os.path.exists(python) else None,
        "environment digest": essentials.value_or_reason(lambda: installed_digest(place)) or None,
        **{name: version or None for name, version in essentials.libraries(python).items()},
        **files_not_as_installed(place),
    }


def files_not_as_installed(place: str) -> Group:
    """Return a fact for each altered file of an environment that pylaunch installed."""
    if not os.path.exists(os.path.join(place, MARKER)):
        return {}
    return {path: f"{how} ({distribution})" for distribution, path, how in touched_files(place)[:FILES_LISTED]}


@reader("host_facts.distributions", DEADLINE_S)
def distributions(python: str) -> Group:
    """Return every Python distribution in the environment of the ranks."""
    try:
        installed = essentials.distributions(python)
    except FileNotFoundError:
        return {}
    return {f"distribution {name}": version for name, version in installed.items()}


@reader("host_facts.packages", DEADLINE_S)
def packages(_question: None) -> Group:
    """Return every installed package of the distribution."""
    output = output_of(["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${binary:Package} ${Version}\n"])
    rows = [line.split() for line in output.splitlines()]
    return {f"package {row[1]}": row[2] for row in rows if len(row) == 3 and row[0] == "installed"}


@reader("host_facts.login", DEADLINE_S)
def login(_question: None) -> Group:
    """Return the user of a login and its resource limits."""
    return {"user": _user(os.getuid()), **{f"limit {name}": _limit(name) for name in LIMITS}}


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return f"{uid} ({uid})"


def _limit(name: str) -> str:
    """Return the soft and the hard limit of a rank in the unit of limits.conf: those of this process."""
    number, unit = LIMITS[name]
    limits = resource.getrlimit(number)
    return "/".join("unlimited" if each == resource.RLIM_INFINITY else str(each // unit) for each in limits)


@reader("host_facts.sshd", DEADLINE_S)
def sshd(_question: None) -> Group:
    """Return the effective limits of sshd on connections, which only root can ask for; None without sshd."""
    if not os.path.exists(SSHD[0]):
        return {f"sshd {name}": None for name in SSHD_OPTIONS}
    output = run_as_root(SSHD, None)
    effective = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
    if "maxstartups" not in effective:
        raise ValueError((output.strip() or "sshd -T printed nothing").splitlines()[0][:200])
    return {f"sshd {name}": effective.get(name.lower()) for name in SSHD_OPTIONS}
