"""What `clean` and `start --stale kill` have in common: words for processes, and ending those that nobody runs."""

from __future__ import annotations

import time

from pylaunch.cli import console
from pylaunch.cli.views import document
from pylaunch.cli.views.listing import duration
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.occupancy.look import look, sweep
from pylaunch.occupancy.processes import Occupant


def described(occupant: Occupant) -> str:
    """A process, for how long, where, of which run, and what it uses."""
    run = f", run {occupant.run}" if occupant.run else ""
    where = f", in {occupant.cwd}" if occupant.cwd else ""
    age = duration(max(0.0, time.time() - occupant.began))
    return f"{occupant}, for {age}{where}{run}: {occupant.uses}"


def as_data(occupant: Occupant) -> dict[str, object]:
    """A process for --json."""
    return {
        "pid": occupant.pid,
        "user": occupant.user,
        "command": occupant.command,
        "cwd": occupant.cwd or None,
        "began": document.moment(occupant.began) if occupant.began else None,
        "run": occupant.run,
        "devices": list(occupant.devices),
        "ports": list(occupant.ports),
        "memory_mib": occupant.memory_mib,
        "is_rank": occupant.is_rank,
    }


def end_stale(cluster: Cluster, port: int) -> None:
    """End what nobody runs any more on the hosts. Raises ClusterNotReadyError for what stays.

    A host that cannot be asked is no reason here: the start has its own words for it.
    """
    views, _ = look(cluster, port)
    found = {name: view.occupancy.stale for name, view in views.items() if view.occupancy.stale}
    if not found:
        return
    swept, _ = sweep(cluster.only(found), port, found, dry_run=False)
    for name, each in swept.items():
        for phrase in each.ended:
            console.say(f"{name}: ended {phrase}, which nobody ran any more")
    stays = {name: each.stays for name, each in swept.items() if each.stays}
    if stays:
        raise ClusterNotReadyError(
            f"processes on {fold(stays)} survive SIGKILL",
            evidence=[f"{name}: {phrase}" for name, phrases in stays.items() for phrase in phrases],
            hint="a process in state D waits in the kernel: see dmesg there, then reboot the host",
        )
