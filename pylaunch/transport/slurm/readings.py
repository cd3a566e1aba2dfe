"""Values in the output of squeue, scontrol and sbatch. Pure.

The formats are those of option `-o` and of key=value lines. JSON is avoided: not every build of Slurm prints it, and
its fields change between releases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pylaunch.model.slurm_job import UNKNOWN, JobLife, JobState, SlurmNode

STATE_FORMAT = "%i|%T|%r|%S|%N"
"""Fields of squeue: id, state, reason, estimated start, nodes."""

_SUBMITTED = re.compile(r"(\d+)(?:;\S+)?")
_TIME_LEFT = re.compile(r"(?:(?:(\d{1,5})-)?(\d{1,3}):)?(\d{1,3}):(\d{2})")
_NO_ESTIMATE = ("N/A", "Unknown", "")
_DOWN = re.compile(r"\bDOWN\b|NOT_RESPONDING|UNKNOWN|\*")
_NODES_OF_JOB = re.compile(r"\bNodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S*)")


def submitted_job(output: str) -> str | None:
    """Return the id that `sbatch --parsable` printed; None where it printed something else."""
    lines = output.split()
    found = _SUBMITTED.fullmatch(lines[-1]) if lines else None
    return None if found is None else found[1]


def job_state(output: str) -> JobState:
    """Return the state in the output of squeue with STATE_FORMAT; UNKNOWN where it lists no job."""
    for line in output.splitlines():
        fields = line.strip().split("|")
        if len(fields) == 5 and fields[0].isdecimal():
            _, state, reason, starts, nodes = fields
            is_waiting = state == "PENDING" and starts not in _NO_ESTIMATE
            return JobState(state, "" if reason == "None" else reason, starts if is_waiting else "", nodes)
    return JobState(UNKNOWN)


def job_life(output: str) -> JobLife:
    """Return the state and the restarts in the output of `scontrol --oneliner show job`."""
    values = _values(output)
    restarts = values.get("Restarts", "")
    return JobLife(values.get("JobState", UNKNOWN), int(restarts) if restarts.isdecimal() else 0)


def time_left(output: str) -> float | None:
    """Return the seconds in the output of squeue with `%L`, such as 1-02:03:04; None for a job without a limit."""
    found = _TIME_LEFT.fullmatch(output.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def nodes(output: str) -> tuple[SlurmNode, ...]:
    """Return the nodes in the output of `scontrol --oneliner show node`, in its order."""
    found = []
    for line in output.splitlines():
        values = _values(line)
        if name := values.get("NodeName"):
            state = values.get("State", "")
            answers = not _DOWN.search(state)
            found.append(SlurmNode(name, values.get("NodeAddr") or name, answers))
    return tuple(found)


def has_accelerators(output: str) -> bool:
    """Return whether the job in the output of `scontrol --oneliner --details show job` has accelerators anywhere."""
    return any(re.search(r"(?:^|,)gpu:", gres) for _, gres in _NODES_OF_JOB.findall(output))


def visible_devices(output: str) -> dict[str, tuple[int, ...]]:
    """Return the devices in lines `NODE|0,1`, by node. Devices that are no numbers (of MIG) are omitted."""
    found: dict[str, tuple[int, ...]] = {}
    for line in output.splitlines():
        name, bar, devices = line.strip().partition("|")
        numbers = tuple(int(each) for each in devices.split(",") if each.isdecimal() and len(each) <= 4)
        if bar and numbers:
            found[name] = numbers
    return found


def _values(line: str) -> Mapping[str, str]:
    """Return the words KEY=VALUE of a line; values with spaces are cut."""
    pairs = (word.partition("=") for word in line.split())
    return {key: value for key, equals, value in pairs if equals}
