"""Room for the pipes of many processes: the limit of open files of this process.

Each ssh has three pipes and a descriptor that reports its end. A soft limit of 1024, the default of most systems, is
reached with some 120 hosts.
"""

import resource

from pylaunch.errors import ClusterNotReadyError

OF_HOST = 10
"""Descriptors for one host: two processes, and the pipes of one that is being started."""

OF_PYLAUNCH = 64


def allow_hosts(count: int, of_host: int = OF_HOST) -> None:
    """Raise the soft limit of open files as far as processes for `count` hosts at the same time need, each `of_host`.

    Raises ClusterNotReadyError where the hard limit is lower.
    """
    needed = OF_PYLAUNCH + of_host * count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ClusterNotReadyError(
            f"{count} hosts need {needed} open files, and this process may open {hard}",
            hint=f"raise the hard limit of this user (nofile in /etc/security/limits.d), then: ulimit -n {needed}",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
