"""Nodes that Slurm allocates to one start: submit a job, wait in the queue, cancel the job at the end."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import TypeVar

from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import BAD_END, GOOD_END
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.slurm.job_script import daemon_argv, job_script
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.hostset import fold
from pylaunch.model.slurm_job import (
    UNKNOWN,
    JobDetails,
    JobRequest,
    JobState,
    SlurmJob,
    SlurmNode,
    cancellation_of_job,
    end_of_job,
)
from pylaunch.runs.prepare.launch import AgentArchive, build
from pylaunch.store.files import job_files
from pylaunch.transport import process
from pylaunch.transport.slurm import commands

_WITH_INPUT = 'input=$1; shift; exec "$@" < "$input"'


def start_daemons(job: str, hosts: tuple[str, ...], archive: AgentArchive, gpus: int | None) -> None:
    """Start `archive` on `hosts`; the step outlives this process, and ends with the job or when no run has used it.

    `gpus` are the GPUs that the step requests; None requests those of the job.
    """
    files = job_files(job, archive.version)
    files.archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = files.archive.with_suffix(f".{os.getpid()}")
    aside.write_bytes(archive.data)
    aside.replace(files.archive)
    words = daemon_argv(job, hosts, archive, gpus)
    process.start_daemon(("/bin/sh", "-c", _WITH_INPUT, "sh", str(files.archive), *words), log=files.log)


FIRST_POLL_S = 0.05
LAST_POLL_S = 10.0
GROWTH = 1.2
"""Between two requests for the state of a job: a fifth of the wait so far, and no more often than `sbatch --wait` asks
later, because slurmctld serves all users of the cluster. The nodes of a granted job are idle until it is noticed."""

SILENT_S = 600.0
"""Pauses together without an answer of Slurm after which a wait in the queue ends: slurmctld may be restarted."""

DAEMONS_END_S = 30.0
"""For the daemons of a job without processes of a run. A job that is cancelled instead is CANCELLED in the accounting,
also after a run that was done: only a node or a slurmctld that does not answer takes this long."""

ENDS_S = 15.0
"""For a job to end: no process of a run is left, so that only a node that does not answer takes longer."""


Answer = TypeVar("Answer")


NEVER = frozenset((
    "PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS", "AccountNotAllowed",
    "QOSNotAllowed", "DependencyNeverSatisfied",
))  # fmt: skip
"""Reasons of a job in the queue that waiting does not change."""


class _JobOverError(ClusterNotReadyError):
    """The job has ended in the queue."""


EmitJob = Callable[[str], None]
"""Takes a line about a job."""

Pause = Callable[[float], object]
wait = Event().wait


@dataclass(frozen=True)
class Allocation:
    """The nodes of a Slurm job, as the cluster of one start."""

    job: SlurmJob
    cluster: Cluster
    emit: EmitJob

    def start_agents(self) -> None:
        """Start an agent on each node of the job; the script of a submitted job does that itself."""
        if together := tuple(node.name for node in self.job.nodes if node.name not in self.job.requests):
            start_daemons(self.job.id, together, build(), None)
        for name, gpus in self.job.requests.items():  # A step that requests its number of GPUs has one node.
            start_daemons(self.job.id, (name,), build(), gpus)

    def end(self, *, is_good: bool) -> None:
        """End a job that pylaunch submitted, COMPLETED after a good run and FAILED after another. Return at its end."""
        end_job(self.job.id, self.emit, is_good=is_good)


def allocate(request: JobRequest, emit: EmitJob, pause: Pause = wait) -> Allocation:
    """Submit a job and wait until it has its nodes. An exception, such as Ctrl-C, cancels the job.

    Raises ClusterNotReadyError with the words of sbatch, and for a job that ends in the queue.
    """
    job = commands.submit(request, job_script(build()))
    emit(f"Slurm job {job} submitted: {request.nodes} node{'s' * (request.nodes != 1)}")
    with _cancelled_on_error(job, emit):
        began = time.monotonic()
        _until_granted(job, emit, pause)
        return _allocation_of(job, commands.job_details(job), emit, f" after {time.monotonic() - began:.1f} s")


def _allocation_of(job: str, details: JobDetails, emit: EmitJob, waited: str = "") -> Allocation:
    """Return the nodes of a granted `job`, whoever submitted it."""
    nodes = commands.nodes_of(details.state.nodes)
    found = SlurmJob(job, nodes, *_devices(job, details, nodes))
    emit(f"Slurm job {job} has {fold(node.name for node in nodes)}{waited}")
    return Allocation(found, cluster_of(found), emit)


@contextlib.contextmanager
def _cancelled_on_error(job: str, emit: EmitJob) -> Iterator[None]:
    try:
        yield
    except _JobOverError:
        raise
    except BaseException:
        try:
            commands.cancel(job)
            emit(f"Slurm job {job} cancelled")
        except ClusterNotReadyError as error:
            emit(_left(job, error.message))
        raise


def _left(job: str, reason: str) -> str:
    return f"note: Slurm does not answer ({reason}); job {job} was not ended: scancel {job}"


def allocation_here(job: str, emit: EmitJob) -> Allocation:
    """Return the nodes of the job in which this process runs. Raises ClusterNotReadyError for one that does not run."""
    details = commands.job_details(job)
    if not details.state.is_granted:
        raise ClusterNotReadyError(
            f"SLURM_JOB_ID is {job}, and this Slurm job does not run ({details.state.state})",
            hint="leave the shell of that allocation, or connect over SSH: --scheduler none",
        )
    return _allocation_of(job, details, emit)


def _devices(
    job: str, details: JobDetails, nodes: tuple[SlurmNode, ...]
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Return the devices of `job`, and the numbers of GPUs that its steps must request, by node."""
    requests = details.gpu_requests(node.name for node in nodes)
    if not requests:
        return {node.name: () for node in nodes}, {}
    needed = {name: gpus for name, gpus in requests.items() if gpus is not None}
    return commands.devices_of(job, requests), needed


def _until_granted(job: str, emit: EmitJob, pause: Pause) -> None:
    """Wait until a job has its nodes. Raises ClusterNotReadyError for one that ends before."""
    answers, reported = _answers(lambda: commands.job_state(job), job, emit, pause), JobState("")
    while not (state := next(answers)).is_granted:
        _check_hope(job, state)
        if state != reported:
            emit(waiting_news(job, state))
            reported = state


def waiting_news(job: str, state: JobState) -> str:
    """Return the news of a job that waits in the queue, for another reason or with another estimate than before."""
    reason = f" ({state.reason})" if state.reason else ""
    starts = f", estimated start {state.starts.replace('T', ' ')}" if state.starts else ""
    return f"Slurm job {job} is {state.state}{reason}{starts}"


def _answers(ask: Callable[[], Answer], job: str, emit: EmitJob, pause: Pause) -> Iterator[Answer]:
    """Yield the answers of Slurm about `job`, asked less and less often, without end.

    Raises ClusterNotReadyError when Slurm has not answered for SILENT_S.
    """
    poll_s, silent_s = FIRST_POLL_S, 0.0
    while True:
        try:
            answer = ask()
        except ClusterNotReadyError as error:
            if silent_s >= SILENT_S:
                raise
            if not silent_s:
                emit(f"note: Slurm does not answer ({error.message}); asking again about job {job}")
            silent_s += poll_s
        else:
            silent_s = 0.0
            yield answer
        pause(poll_s)
        poll_s = min(poll_s * GROWTH, LAST_POLL_S)


def _check_hope(job: str, state: JobState) -> None:
    """Raise ClusterNotReadyError for a job that has ended in the queue, or never leaves it."""
    if state.is_over:
        why = f"{state.state}: {state.reason}" if state.reason else state.state
        # The reason of a cancelled job is still that for which it waited.
        ended = cancellation_of_job(job) if state.state == "CANCELLED" else f"{end_of_job(job)} ({why})"
        raise _JobOverError(f"{ended} before it had its nodes", hint=f"scontrol show job {job} shows its end")
    if state.reason in NEVER:
        raise ClusterNotReadyError(
            f"Slurm job {job} can never run as it is requested: {state.reason}",
            hint="sinfo -o '%P %l %D %c %m %G' lists what the partitions have",
        )


def end_job(job: str, emit: EmitJob, *, is_good: bool, pause: Pause = wait) -> None:
    """Let the daemons of `job` end, which ends the job; cancel it if they do not. Return when Slurm reports its end.

    Slurm cannot report it while a node of the job does not answer: after ENDS_S this reports the job. A Slurm that
    does not answer changes nothing about how the run ended.
    """
    try:
        commands.signal_steps(job, GOOD_END if is_good else BAD_END)
        state = _state_at_end(job, DAEMONS_END_S, pause)
        if not state.is_over:
            commands.cancel(job)
            state = _state_at_end(job, ENDS_S, pause)
    except ClusterNotReadyError as error:
        emit(_left(job, error.message))
    else:
        emit(ended_news(job, state))


def ended_news(job: str, state: JobState) -> str:
    """Return the news after a job was ended; one that is not over has a node that does not answer."""
    if state.is_over:
        return f"Slurm job {job} ended" + ("" if state.state == UNKNOWN else f": {state.state}")
    where = f" on {state.nodes}" if state.nodes else ""
    return f"note: Slurm job {job} was cancelled and is still {state.state}{where}: a node does not answer"


def end_submitted(job: str, emit: EmitJob, *, is_good: bool = False) -> None:
    """End a job that pylaunch submitted for a run whose first controller is gone, unless it has ended."""
    try:
        is_over = commands.job_state(job).is_over
    except ClusterNotReadyError as error:
        emit(_left(job, error.message))
    else:
        if not is_over:
            end_job(job, emit, is_good=is_good)


def _state_at_end(job: str, within_s: float, pause: Pause) -> JobState:
    """Return the state of `job` when it has ended, or after `within_s`."""
    deadline, poll_s = time.monotonic() + within_s, FIRST_POLL_S
    while not (state := commands.job_state(job)).is_over and time.monotonic() < deadline:
        pause(poll_s)
        poll_s *= GROWTH
    return state


def cluster_of(job: SlurmJob) -> Cluster:
    """Return the nodes of `job` as a cluster, in the order of Slurm, reached through steps of the job."""
    python = _rank_python(os.environ)
    return Cluster(
        tuple(
            Host(
                node.name, node.address, Connection.SLURM, slurm_job=job.id,
                slurm_gpus=job.requests.get(node.name), devices=job.devices.get(node.name, ()),
                withholds_devices=node.has_gpus and node.name in job.devices, python=python,
            )
            for node in job.nodes
        )
    )  # fmt: skip


def _rank_python(environment: Mapping[str, str]) -> str:
    """Return the interpreter of the ranks: that of the active environment, else pylaunch's own."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if directory := environment.get(name):
            return f"{directory}/bin/python"
    return sys.executable
