"""Flags of `start` as one value, and the job and the queue that they describe."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import UsageError
from pylaunch.model.job import EVERY, Framework, JobSpec, OnHang
from pylaunch.model.text.argv import Argv
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal import options
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.environment import Environment, EnvironmentFlags

if TYPE_CHECKING:
    from pylaunch.runs.prepare.queue import Turn

AUTO = "auto"

OFF = "off"
LEAST_HANG_S = 1.0
"""Ranks are asked at half of this; a shorter time would ask healthy ones all the time."""

MIN_NODE_TIMEOUT_S = 3
"""The controller expects a heartbeat of each node every second."""

BESIDE_THE_JOB = ("queue", "stale", "save_logs")
"""Fields of StartFlags that are in no job and no plan: the record of a run has them for `rerun`."""

LEFT_OUT = "left out"
"""Key of the same record: names of options with values that are not recorded."""


@dataclass(frozen=True, kw_only=True)
class StartFlags(EnvironmentFlags, sync.SyncFlags):
    """Flags of `pylaunch start`, as click parsed them. Defaults are those of the command line."""

    words: Argv = ()
    nodes: int | None = None
    nproc_per_node: str = AUTO
    framework: str = AUTO
    module: bool = False
    workdir: str | None = None
    python: str | None = None
    port: int | None = None
    interface: str | None = None
    max_restarts: int = 0
    fallback: bool = False
    spares: int = 0
    min_nodes: int | None = None
    grace: float | None = None
    start_timeout: float = 60.0
    save_logs: Path | None = None
    node_timeout: float = 10.0
    on_hang: str = OnHang.OBSERVE.value
    hang_after: str = "30"
    no_rank_thread: bool = False
    detach: bool = False
    ends_with_controller: bool = False
    """No option: parts of a job end with the controller that started them."""

    no_check: bool = False
    skip: str | None = None
    queue: bool = False
    stale: str = "leave"
    dry_run: bool = False
    verbose: bool = False
    request: Mapping[str, object] = field(default_factory=dict)
    """Options for the record of the run, by BESIDE_THE_JOB and those of observers."""

    in_job: Callable[[JobSpec], JobSpec] = lambda job: job
    """Return a job with what the options of features change in it. Raises UsageError."""

    def turn(self) -> "Turn | None":
        """Return the hosts for which the start waits; None without --queue."""
        if not self.queue:
            return None
        from pylaunch.runs.prepare.queue import Turn  # noqa: PLC0415 -- modules that parsing the flags does not need

        return Turn()

    def job(
        self, words: Argv, framework: Framework, env: Environment, tree: Tree | None, *, is_unread: bool
    ) -> JobSpec:
        """Return the job. Raises UsageError for values out of range and for a script that is not in `tree`."""
        workdir = _workdir(self.workdir) if tree is None else sync.workdir(self.workdir, tree)
        job = JobSpec(
            command=words,
            framework=framework,
            workdir=workdir,
            is_unread=is_unread,
            ranks_per_node=_ranks_per_node(self.nproc_per_node),
            nodes=self.nodes,
            env=env.plain,
            secrets=tuple(env.secrets),
            sync=None if tree is None else sync.as_asked(tree, self.sync_exclude),
            python=self.python or None,
            rendezvous_port=self.port,
            interface=self.interface or None,
            grace=None if self.grace is None else _seconds("--grace", self.grace),
            start_timeout=_seconds("--start-timeout", self.start_timeout),
            node_timeout=_node_timeout(self.node_timeout),
            hang_after=_hang_after(self.hang_after),
            on_hang=_on_hang(self.on_hang, self.hang_after, self.max_restarts),
            rank_thread=not self.no_rank_thread,
            max_restarts=self.max_restarts,
            fallback=_fallback(self.fallback, self.max_restarts),
            spares=self.spares,
            min_nodes=self.min_nodes,
            skipped_checks=(EVERY,) if self.no_check else tuple(options.words(self.skip)),
            ends_with_controller=self.ends_with_controller,
        )
        if tree is not None and words[0] and (job.framework is not Framework.COMMAND or "/" in words[0]):
            sync.check_script(tree, workdir, job.script)
        return self.in_job(job)


def source_directory(workdir: str | None, tree: Tree | None) -> str:
    """Return the directory on this machine that has the source of the program."""
    return str((Path.cwd() if tree is None else tree.directory) / (workdir or ""))


def _workdir(given: str | None) -> str:
    workdir = given or str(Path.cwd())
    if not workdir.startswith("/"):
        raise UsageError(
            f"--workdir {workdir}: expected an absolute path", hint=f"--workdir {Path(workdir).absolute()}"
        )
    return workdir


def _ranks_per_node(text: str) -> int | None:
    if text == AUTO:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--nproc-per-node {text}: expected auto or a whole number from 1 on")
    return int(text)


def _seconds(option: str, seconds: float) -> timedelta:
    if not 0 <= seconds <= 86400:
        raise UsageError(f"{option} {seconds:g}: expected 0 … 86400 seconds")
    return timedelta(seconds=seconds)


def _hang_after(text: str) -> timedelta | None:
    if text == OFF:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not LEAST_HANG_S <= seconds <= 86400:
        raise UsageError(f"--hang-after {text}: expected {LEAST_HANG_S:g} … 86400 seconds, or {OFF}")
    return timedelta(seconds=seconds)


def _on_hang(text: str, after: str, max_restarts: int) -> OnHang:
    action = OnHang(text)
    if action is not OnHang.OBSERVE and after == OFF:
        raise UsageError(f"--on-hang {text} has no effect with --hang-after {OFF}", hint="--hang-after 30")
    if action is OnHang.RESTART and max_restarts < 1:
        raise UsageError("--on-hang restart has no effect without --max-restarts", hint="--max-restarts 3")
    return action


def _fallback(wanted: bool, max_restarts: int) -> bool:
    if wanted and max_restarts < 1:
        raise UsageError("--fallback has no effect without --max-restarts", hint="--max-restarts 1")
    return wanted


def _node_timeout(seconds: float) -> timedelta:
    if not MIN_NODE_TIMEOUT_S <= seconds <= 3600:
        raise UsageError(f"--node-timeout {seconds}: expected {MIN_NODE_TIMEOUT_S} … 3600 seconds")
    return timedelta(seconds=seconds)
