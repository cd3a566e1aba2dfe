"""Values in the output of squeue, scontrol and sbatch. Pure.

The formats are those of option `-o` and of key=value lines. JSON is avoided: not every build of Slurm prints it, and
its fields change between releases.
"""

import pwd
import re
from collections.abc import Mapping

from pylaunch.model.hostset import expand
from pylaunch.model.slurm_job import UNKNOWN, JobDetails, JobState, SlurmNode

STATE_FORMAT = "%A|%T|%r|%S|%N|%i"
"""Fields of squeue: id, state, reason, estimated start, nodes, and the id as people write it: 14+1 for a component of a
heterogeneous job, 14_1 for an element of an array."""

_SUBMITTED = re.compile(r"(\d+)(?:;\S+)?")
_CANCELLED_BY = re.compile(r"\|CANCELLED by (\d+)")
_NO_ESTIMATE = ("N/A", "Unknown", "")
_DOWN = re.compile(r"\bDOWN\b|NOT_RESPONDING|UNKNOWN|\*")
_GPUS = re.compile(r"(?:^|,)gpu:")
_GPU_COUNT = re.compile(r"(?:^|,)gpu:(?:[^:,()]+:)?(\d{1,4})(?=[(,]|$)")
_NO_DEVICES = ("", "NoDevFiles", "-1")
"""Values of CUDA_VISIBLE_DEVICES in a step without GPUs; releases differ."""

_NODES_OF_JOB = re.compile(r"\bNodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S*)")


def submitted_job(output: str) -> str | None:
    """Return the id that `sbatch --parsable` printed; None where it printed something else."""
    lines = output.split()
    found = _SUBMITTED.fullmatch(lines[-1]) if lines else None
    return None if found is None else found[1]


def job_states(output: str) -> dict[str, JobState]:
    """Return the states of all jobs in the output of squeue with STATE_FORMAT, by both of their ids."""
    found: dict[str, JobState] = {}
    for line in output.splitlines():
        job, _, rest = line.strip().partition("|")
        fields = rest.split("|")
        if len(fields) == 5 and job.isdecimal():
            state, reason, starts, nodes, written = fields
            is_waiting = state == "PENDING" and starts not in _NO_ESTIMATE
            known = JobState(state, "" if reason == "None" else reason, starts if is_waiting else "", nodes)
            found |= {job: known, written: known}
    return found


def canceller(output: str, job: str) -> str:
    """Return the user who cancelled `job`, by name if this host knows it, in the output of sacct: JobID|State.

    "" where sacct does not say, as without accounting (slurmdbd).
    """
    found = _CANCELLED_BY.search(next((line for line in output.splitlines() if line.startswith(f"{job}|")), ""))
    if found is None:
        return ""
    try:
        return pwd.getpwuid(int(found[1])).pw_name
    except (KeyError, OverflowError):
        return f"uid {found[1]}"


def job_details(output: str, job: str) -> JobDetails:
    """Return `job`, or its component 14+1, in the output of `scontrol --oneliner --details show job`."""
    line, values = _of_job(output, job)
    state = JobState(values.get("JobState", UNKNOWN), nodes=values.get("NodeList", "").removeprefix("(null)"))
    return JobDetails(state, gpus_of_nodes(line), shares_gpus(line))


def _of_job(output: str, job: str) -> tuple[str, Mapping[str, str]]:
    """Return the line of `job`, or of its component 14+1, and its values; nothing where it is not listed.

    Slurm lists all elements of an array for the id of its last one, which is that of the array, too.
    """
    for line in output.splitlines():
        values = _values(line)
        if job in (values.get("JobId"), f"{values.get('HetJobId')}+{values.get('HetJobOffset')}"):
            return line, values
    return "", {}


def nodes(output: str) -> tuple[SlurmNode, ...]:
    """Return the nodes in the output of `scontrol --oneliner show node`, in its order."""
    found = []
    for line in output.splitlines():
        values = _values(line)
        if name := values.get("NodeName"):
            state = values.get("State", "")
            answers = not _DOWN.search(state)
            has_gpus = _GPUS.search(values.get("Gres", "")) is not None
            found.append(SlurmNode(name, values.get("NodeAddr") or name, answers, has_gpus))
    return tuple(found)


def gpus_of_nodes(output: str) -> dict[str, int]:
    """Return the number of GPUs of the job in the output of `scontrol --oneliner --details show job`, by node."""
    found: dict[str, int] = {}
    for listed, gres in _NODES_OF_JOB.findall(output):
        count = sum(int(each) for each in _GPU_COUNT.findall(gres))
        found |= dict.fromkeys(expand(listed), count) if count else {}
    return found


def shares_gpus(output: str) -> bool:
    """Return whether the job was requested with GPUs in total or for each task, which may differ between nodes.

    The output is that of `scontrol --oneliner show job`. A step on one node of that job must name its number of GPUs.
    """
    values = _values(output)
    return any("gpu" in values.get(name, "") for name in ("TresPerJob", "TresPerTask", "TresPerSocket"))


def visible_devices(output: str) -> dict[str, tuple[int, ...]]:
    """Return the devices in lines `NODE|0,1`, by node; empty for a node without any.

    A node with devices that are no numbers (MIG) is missing.
    """
    found: dict[str, tuple[int, ...]] = {}
    for line in output.splitlines():
        name, bar, devices = line.strip().partition("|")
        words = () if devices in _NO_DEVICES else tuple(devices.split(","))
        if bar and all(each.isdecimal() and len(each) <= 4 for each in words):
            found[name] = tuple(map(int, words))
    return found


def _values(line: str) -> Mapping[str, str]:
    """Return the words KEY=VALUE of a line; values with spaces are cut."""
    pairs = (word.partition("=") for word in line.split())
    return {key: value for key, equals, value in pairs if equals}
