"""Identity of this host, and its kernel settings and limits."""

import os
import resource

from pylaunch.agent.probe.identity import bounding_capabilities, distribution
from pylaunch.agent.probe.registry import reader, reader_of_each
from pylaunch.agent.shared.text import text_of
from pylaunch.protocol.readings.roles import IdentityReading, LimitReading, SysctlReading

LIMITS = {
    "memlock": (resource.RLIMIT_MEMLOCK, 1024),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "stack": (resource.RLIMIT_STACK, 1024),
}
"""Number and unit, as in limits.conf."""


@reader("settings.identity")
def identity(_question: None) -> IdentityReading:
    """Return the host's own name, its distribution and its capabilities."""
    return {
        "hostname": os.uname().nodename,
        "capabilities": bounding_capabilities(),
        "distribution": distribution(),
    }


@reader_of_each("settings.sysctl")
def sysctl(key: str) -> SysctlReading:
    """Return the live value of a kernel setting; `read_only` if even root cannot change it."""
    path = "/proc/sys/" + key.replace(".", "/")
    # Root may write anywhere but on a read-only mount, as /proc/sys is in containers.
    read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return {"value": " ".join(text_of(path).split()), "read_only": read_only}


def limit_of(name: str) -> LimitReading:
    """Return a limit of a rank in the unit of limits.conf: that of this process, which starts as the agent does.

    Both are started by the same SSH command, the same login shell and the same PAM session; the agent, its forks and
    what they exec inherit the limit.
    """
    number, unit = LIMITS[name]
    soft, hard = resource.getrlimit(number)
    infinite = resource.RLIM_INFINITY
    return {
        "soft": "unlimited" if soft == infinite else str(soft // unit),
        "hard": "unlimited" if hard == infinite else str(hard // unit),
    }


limit = reader_of_each("settings.limit")(limit_of)
