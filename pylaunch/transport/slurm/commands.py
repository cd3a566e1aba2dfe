"""sbatch, squeue, scontrol and scancel, and what they print. Each call is one request to slurmctld; none is repeated.

The formats are those of option `-o` and of key=value lines. JSON is avoided: not every build of Slurm prints it, and
its fields change between releases.
"""

import os
import re
from collections.abc import Mapping, Sequence

from pylaunch.errors import ClusterNotReadyError, PylaunchError, UsageError
from pylaunch.model.hostset import expand
from pylaunch.model.slurm_job import UNKNOWN, JobDetails, JobRequest, JobState, SlurmNode
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.process import Completed, ProgramNotFoundError
from pylaunch.transport.slurm import connector
from pylaunch.transport.slurm.connector import explained, own_words

STATE_FORMAT = "%A|%T|%r|%S|%N"
"""Fields of squeue: id, state, reason, estimated start, nodes."""

_SUBMITTED = re.compile(r"(\d+)(?:;\S+)?")
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


def states_in(output: str) -> dict[str, JobState]:
    """Return the states of all jobs in the output of squeue with STATE_FORMAT, by id."""
    found: dict[str, JobState] = {}
    for line in output.splitlines():
        job, _, rest = line.strip().partition("|")
        fields = rest.split("|")
        if len(fields) == 4 and job.isdecimal():
            state, reason, starts, nodes = fields
            is_waiting = state == "PENDING" and starts not in _NO_ESTIMATE
            found[job] = JobState(state, "" if reason == "None" else reason, starts if is_waiting else "", nodes)
    return found


def details_in(output: str, job: str) -> JobDetails:
    """Return `job` in the output of `scontrol --oneliner --details show job`.

    Slurm lists all elements of an array for the id of its last one, which is that of the array, too.
    """
    line = next((line for line in output.splitlines() if _values(line).get("JobId") == job), "")
    values = _values(line)
    state = JobState(values.get("JobState", UNKNOWN), nodes=values.get("NodeList", "").removeprefix("(null)"))
    return JobDetails(state, gpus_of_nodes(line), shares_gpus(line))


def nodes_in(output: str) -> tuple[SlurmNode, ...]:
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


ANSWERS_S = 60.0
_GONE = re.compile(r"Invalid job id")
_EXPORTED = "PATH,HOME,USER,LOGNAME,LANG"
"""The environment of the job. Ranks get theirs from pylaunch, and secrets of this shell stay out of Slurm."""


class SlurmAbsentError(UsageError):
    """The commands of Slurm are not installed here."""

    def __init__(self, program: str) -> None:
        hint = "run pylaunch on a login node of the Slurm cluster; a site may need: module load slurm"
        if os.environ.get("SLURM_JOB_ID"):
            hint += "; SLURM_JOB_ID is set, and without it hosts are reached over SSH: env -u SLURM_JOB_ID pylaunch …"
        super().__init__(f"no Slurm here: {program} not found in PATH", hint=hint)


def submit(request: JobRequest, script: str) -> str:
    """Submit `script` and return the id of its job. Raises ClusterNotReadyError with the words of sbatch."""
    options = (
        "--parsable", f"--nodes={request.nodes}", "--ntasks-per-node=1", f"--job-name={request.name}", "--no-kill",
        "--chdir=/", "--output=/dev/null", f"--export={_EXPORTED}",
    )  # fmt: skip
    # Slurm would start the agents of a requeued job again, and no controller with them.
    ended = _run(("sbatch", *options, *request.options, "--no-requeue"), stdin=script.encode())
    job = submitted_job(ended.stdout) if ended.ok else None
    if job is None:
        hint = "sinfo lists the partitions, sbatch --help the options"
        raise ClusterNotReadyError(
            f"sbatch refused the job: {own_words(ended.stderr or ended.stdout)}",
            evidence=_lines(ended),
            hint=explained(ended.stderr, hint).hint,
        )
    return job


def job_state(job: str) -> JobState:
    """Return the state of `job`; UNKNOWN for one that Slurm has forgotten. Raises ClusterNotReadyError."""
    return job_states((job,)).get(job, JobState(UNKNOWN))


def job_states(jobs: Sequence[str]) -> dict[str, JobState]:
    """Return the states of `jobs` by id.

    Jobs that Slurm has forgotten are missing. Raises ClusterNotReadyError.
    """
    listed = f"--jobs={','.join(jobs)}"
    answer = _known("squeue", "squeue", "--noheader", "--states=all", listed, f"--format={STATE_FORMAT}")
    return {} if answer is None else states_in(answer)


def nodes_of(listed: str) -> tuple[SlurmNode, ...]:
    """Return the nodes of a list of Slurm, such as "n[1-3]", in its order. Raises ClusterNotReadyError."""
    ended = _run(("scontrol", "--oneliner", "show", "node", listed))
    found = nodes_in(ended.stdout)
    if not ended.ok or not found:
        raise _failed("scontrol show node", ended)
    return found


def job_details(job: str) -> JobDetails:
    """Return `job` with its nodes and GPUs; UNKNOWN for one that Slurm has forgotten.

    Raises ClusterNotReadyError.
    """
    answer = _known("scontrol show job", "scontrol", "--oneliner", "--details", "show", "job", job)
    return JobDetails(JobState(UNKNOWN)) if answer is None else details_in(answer, job)


def devices_of(job: str, requests: Mapping[str, int | None]) -> dict[str, tuple[int, ...]]:
    """Return the accelerators that steps on nodes of `job` see, by node, from its `gpu_requests`.

    A node with accelerators that have no index (MIG) is missing. Raises ClusterNotReadyError.
    """
    together = [name for name, gpus in requests.items() if gpus is None]
    alone = [((name,), gpus) for name, gpus in requests.items() if gpus is not None]
    shown = 'echo "$SLURMD_NODENAME|${CUDA_VISIBLE_DEVICES:-$ROCR_VISIBLE_DEVICES}"'
    found: dict[str, tuple[int, ...]] = {}
    for names, gpus in (*([(tuple(together), None)] if together else []), *alone):
        ended = _run(connector.step(job, names, ("/bin/sh", "-c", shown), gpus=gpus))
        if not ended.ok:
            raise _failed("srun", ended)
        found |= visible_devices(ended.stdout)
    return found


def signal_steps(job: str, name: str) -> None:
    """Send the signal `name` to the steps of `job`; a job that has ended is no error. Raises ClusterNotReadyError."""
    _known("scancel", "scancel", f"--signal={name}", job)


def cancel(job: str) -> None:
    """Cancel `job`; a job that has ended is no error. Raises ClusterNotReadyError."""
    _known("scancel", "scancel", job)


def _known(command: str, *argv: str) -> str | None:
    """Return the output of `argv` about a job; None for one that Slurm has forgotten. Raises ClusterNotReadyError."""
    ended = _run(argv)
    if ended.ok:
        return ended.stdout
    if _GONE.search(ended.stderr):
        return None
    raise _failed(command, ended)


def _run(argv: Argv, stdin: bytes = b"") -> Completed:
    environment = connector.without_inputs(os.environ) if argv[0] == "sbatch" else ()
    program = "srun" if argv[0] == "env" else argv[0]
    if process.program_path(program) is None:
        raise SlurmAbsentError(program)
    try:
        return process.run((*environment, *argv), stdin=stdin, timeout_s=ANSWERS_S)
    except ProgramNotFoundError:
        raise SlurmAbsentError(program) from None
    except PylaunchError as error:  # No answer in time.
        raise ClusterNotReadyError(error.message, hint="scontrol ping shows whether slurmctld answers") from None


def _failed(command: str, ended: Completed) -> PylaunchError:
    failure = explained(ended.stderr or ended.stdout, None)
    return ClusterNotReadyError(f"{command}: {failure.reason}", evidence=_lines(ended), hint=failure.hint)


def _lines(ended: Completed) -> tuple[str, ...]:
    """Return the last lines that the command printed, where they are more than the message has."""
    lines = tuple(line.strip() for line in ended.stderr.splitlines() if line.strip())
    return lines[-5:] if len(lines) > 1 else ()
