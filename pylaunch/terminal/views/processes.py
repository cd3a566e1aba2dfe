"""Processes on hosts, in words and as data, and proofs that nothing of a run is left."""

import time
from collections.abc import Mapping

from pylaunch.checks.occupancy.look import Occupant
from pylaunch.model.hostset import alike
from pylaunch.model.text.quantity import duration
from pylaunch.runs.proof import NodeProof
from pylaunch.terminal import console, document


def described_process(occupant: Occupant) -> str:
    """Describe a process: age, directory, run, and the devices and ports it uses."""
    run = f", run {occupant.run}" if occupant.run else ""
    where = f", in {occupant.cwd}" if occupant.cwd else ""
    age = duration(max(0.0, time.time() - occupant.began))
    return f"{occupant}, for {age}{where}{run}: {occupant.uses}"


def as_data(occupant: Occupant) -> dict[str, object]:
    """Return a process for --json."""
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
        "container": occupant.container or None,
        "is_rank": occupant.is_rank,
    }


def show_proofs(run: str, proofs: Mapping[str, NodeProof]) -> None:
    """Print the answers of the nodes; nodes with the same answer share one line."""
    for hosts, words in alike({host: (each.words,) for host, each in proofs.items()}):
        console.say(f"run {run}: {hosts}: {words}")
