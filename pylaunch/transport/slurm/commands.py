"""sbatch, squeue, scontrol and scancel. Each call is one request to slurmctld, and none is repeated here."""

import os
import re
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import replace
from pylaunch.errors import ClusterNotReadyError, PylaunchError, UsageError
from pylaunch.model.slurm_job import UNKNOWN, JobDetails, JobRequest, JobState, SlurmNode
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.process import Completed, ProgramNotFoundError
from pylaunch.transport.slurm import readings, srun
from pylaunch.transport.slurm.failures import explained, own_words

ANSWERS_S = 60.0
_GONE = re.compile(r"Invalid job id")
_EXPORTED = "PATH,HOME,USER,LOGNAME,LANG"
"""The environment of the job. Ranks get theirs from pylaunch, and secrets of this shell stay out of Slurm."""

_HINTS = (
    (re.compile(r"partition", re.IGNORECASE), "sinfo -s lists the partitions"),
    (re.compile(r"\bqos\b", re.IGNORECASE), "sacctmgr show qos format=name lists the QOS"),
    (re.compile(r"account", re.IGNORECASE), "sacctmgr show associations user=$USER lists your accounts"),
    (re.compile(r"--time\b"), "minutes, or hours:minutes:seconds: --time 90, --time 4:00:00, --time 2-00:00:00"),
    (re.compile(r"time limit", re.IGNORECASE), "sinfo -o '%P %l' lists the time limits of the partitions"),
    (re.compile(r"feature|constraint", re.IGNORECASE), "sinfo -o '%N %f' lists the features of the nodes"),
    (re.compile(r"gres|generic resource", re.IGNORECASE), "sinfo -o '%N %G' lists the generic resources of the nodes"),
    (
        re.compile(r"node configuration|node count|more processors", re.IGNORECASE),
        "sinfo -o '%P %D %c %m %G' lists nodes, processors, memory and GRES of the partitions",
    ),
    (re.compile(r"nrecognized option|option requires|ambiguous", re.IGNORECASE), "sbatch --help lists the options"),
)


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
        "--no-requeue", "--chdir=/", "--output=/dev/null",
        f"--export={_EXPORTED}",
    )  # fmt: skip
    ended = _run(("sbatch", *options, *request.options), stdin=script.encode())
    job = readings.submitted_job(ended.stdout) if ended.ok else None
    if job is None:
        words = own_words(ended.stderr or ended.stdout)
        hint = next((hint for pattern, hint in _HINTS if pattern.search(words)), None)
        raise ClusterNotReadyError(
            f"sbatch refused the job: {words}", evidence=_lines(ended), hint=explained(ended.stderr, hint).hint
        )
    return job


def job_state(job: str) -> JobState:
    """Return the state of `job`; UNKNOWN for one that Slurm has forgotten. Raises ClusterNotReadyError."""
    return job_states((job,)).get(job, JobState(UNKNOWN))


def job_states(jobs: Sequence[str]) -> dict[str, JobState]:
    """Return the states of `jobs`, and of further components of one that is heterogeneous, by id.

    Jobs that Slurm has forgotten are missing. Raises ClusterNotReadyError.
    """
    listed = f"--jobs={','.join(jobs)}"
    answer = _known("squeue", "squeue", "--noheader", "--states=all", listed, f"--format={readings.STATE_FORMAT}")
    return {} if answer is None else readings.job_states(answer)


def job_at_end(job: str) -> JobState:
    """Return the state of `job`, with the user who cancelled it if the accounting of Slurm says so.

    Raises ClusterNotReadyError.
    """
    state = job_state(job)
    if state.state != "CANCELLED" or process.program_path("sacct") is None:
        return state
    ended = _run(("sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}", "--format=JobID,State"))
    return replace(state, by=readings.canceller(ended.stdout, job))


def nodes_of(listed: str) -> tuple[SlurmNode, ...]:
    """Return the nodes of a list of Slurm, such as "n[1-3]", in its order. Raises ClusterNotReadyError."""
    ended = _run(("scontrol", "--oneliner", "show", "node", listed))
    found = readings.nodes(ended.stdout)
    if not ended.ok or not found:
        raise _failed("scontrol show node", ended)
    return found


def job_details(job: str) -> JobDetails:
    """Return `job`, or its component 14+1, with its nodes and GPUs; UNKNOWN for one that Slurm has forgotten.

    Raises ClusterNotReadyError.
    """
    answer = _known("scontrol show job", "scontrol", "--oneliner", "--details", "show", "job", job)
    return JobDetails(JobState(UNKNOWN)) if answer is None else readings.job_details(answer, job)


def devices_of(job: str, requests: Mapping[str, int | None]) -> dict[str, tuple[int, ...]]:
    """Return the accelerators that steps on nodes of `job` see, by node, from its `gpu_requests`.

    A node with accelerators that have no index (MIG) is missing. Raises ClusterNotReadyError.
    """
    together = [name for name, gpus in requests.items() if gpus is None]
    alone = [((name,), gpus) for name, gpus in requests.items() if gpus is not None]
    shown = 'echo "$SLURMD_NODENAME|${CUDA_VISIBLE_DEVICES:-$ROCR_VISIBLE_DEVICES}"'
    found: dict[str, tuple[int, ...]] = {}
    for names, gpus in (*([(tuple(together), None)] if together else []), *alone):
        ended = _run(srun.step(job, names, ("/bin/sh", "-c", shown), gpus=gpus))
        if not ended.ok:
            raise _failed("srun", ended)
        found |= readings.visible_devices(ended.stdout)
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


def _run(argv: Argv, stdin: bytes | None = None) -> Completed:
    environment = srun.without_inputs(os.environ) if argv[0] == "sbatch" else ()
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
