"""Paths of the agent on a node. No other module joins these paths.

<root>/                      0700, owned by our user
  agents/<version>.pyz       the agent, by content
  runs/<run>/
    agent.lock               locked for as long as the run's supervisor lives
    agent.sock               controllers connect here
    ranks.sock               ranks that a launcher starts report here
    stop-requested           reason of a requested stop; absent without a request
    agent.log                log of the supervisor
    task.json                its task
    reserve                  room for the end of the record on a disk that ranks fill; gone when the run is over
    container                engine that may keep a container of the run; gone once it is removed
    boot                     boot id of the node when the run began
    events.jsonl             its events, as messages
    outcome.json             its outcome; absent while it runs
    logs/<rank>.out|err      output of the ranks; launcher.out|err for the launcher
    times/<rank>.out|err     sizes of that log over time (see `times`)
    ranks/<rank>.error.json  exception that ended a rank, as torch's `record` and pylaunch.runtime write it
    ranks/<rank>.step        last step that a rank has marked
    ranks/<rank>.sock        a Python rank answers the agent here
    ranks/<rank>.stacks      stacks by faulthandler; locked by the process that answers
    ranks/nccl-trace-<rank>  collectives that torch wrote when NCCL timed out
    hostfile                 nodes of the run, one line `address slots=ranks` each
    launcher/                files of the launcher during the run
    short                    link to a directory in /tmp for the sockets of ranks, which ends with the run
  jobs/<job>.sock            relays ask the daemon of a Slurm job here for a supervisor
  blobs/<ab>/<sha256>        content of shipped code
  trees/<run>/               shipped code of one run: the working directory of all its attempts
  trees/<run>.json           the manifest of that tree
"""

from __future__ import annotations

import os
import re
import stat

from pylaunch.base.dataclass import dataclass

SOCKETS = ("agent.sock", "ranks.sock")
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
JOB_ID = re.compile(r"[0-9]{1,12}\Z")
JOB_VARIABLE = "PYLAUNCH_SLURM_JOB"
"""Variable of an agent that srun starts: the id of its Slurm job, whose daemon starts supervisors."""

GOOD_END = "USR1"
BAD_END = "USR2"
"""Signals that end the daemon of a Slurm job, with exit status 0 and 1: the job becomes COMPLETED or FAILED."""

ATTEMPT = re.compile(r"\.\d+\Z")
"""Suffix of the id of an attempt after the first."""


def first_run(run: str) -> str:
    """Return the id of the run that `run` is an attempt of."""
    return ATTEMPT.sub("", run)


class AgentError(Exception):
    """Error of the agent with a message for the user: what happened, with the value."""


class RunNotOnNodeError(AgentError):
    """This node has no files of the run."""


class SupervisorStoppedError(AgentError):
    """The agent of the run is stopped by SIGSTOP."""


@dataclass(frozen=True)
class RunDirectory:
    """Files of one run on this node."""

    run: str
    path: str

    def file(self, name: str) -> str:
        """Return the path of one of the files in the table above."""
        return os.path.join(self.path, name)

    @property
    def logs(self) -> str:
        return self.file("logs")

    @property
    def short(self) -> str:
        return self.file("short")

    def stream(self, name: str) -> str:
        """Return the log file of the stream `name`."""
        return os.path.join(self.path, "logs", name)

    def times(self, name: str) -> str:
        """Return the file with the sizes of the log of the stream `name` over time."""
        return os.path.join(self.path, "times", name)

    def of_rank(self, rank: int, name: str) -> str:
        """Return the file `name` that `rank` writes."""
        return os.path.join(self.path, "ranks", f"{rank}.{name}")

    @property
    def is_over(self) -> bool:
        return os.path.exists(self.file("outcome.json"))


@dataclass(frozen=True)
class NodeRoot:
    """Directory of pylaunch on this node."""

    path: str

    @property
    def agents(self) -> str:
        return os.path.join(self.path, "agents")

    @property
    def runs(self) -> str:
        return os.path.join(self.path, "runs")

    @property
    def blobs(self) -> str:
        return os.path.join(self.path, "blobs")

    @property
    def trees(self) -> str:
        return os.path.join(self.path, "trees")

    def blob(self, digest: str) -> str:
        return os.path.join(self.blobs, digest[:2], digest)

    def tree(self, run: str) -> str:
        """Return the directory of the shipped code, shared by all attempts of `run`."""
        return os.path.join(self.trees, first_run(run))

    def manifest(self, run: str) -> str:
        return os.path.join(self.trees, first_run(run) + ".json")

    def job_socket(self, job: str) -> str:
        """Return the socket of the daemon of Slurm job `job`. Raises AgentError for an invalid id."""
        if not JOB_ID.match(job):
            raise AgentError(f"id of a Slurm job: expected digits, got {job[:80]!r}")
        return os.path.join(self.path, "jobs", job + ".sock")

    def archive(self, version: str) -> str:
        return os.path.join(self.agents, version + ".pyz")

    def run(self, run: str) -> RunDirectory:
        """Return the directory of `run`, which may not exist. Raises AgentError for an invalid run id."""
        if not RUN_ID.match(run):
            raise AgentError(f"run id: expected letters, digits, '.', '_' and '-', at most 64; got {run!r}")
        return RunDirectory(run, os.path.join(self.runs, run))

    def all_runs(self) -> list[RunDirectory]:
        """Return every run that has a directory here, oldest first."""
        if not os.path.isdir(self.runs):
            return []
        with os.scandir(self.runs) as entries:
            found = [entry for entry in entries if RUN_ID.match(entry.name) and entry.is_dir(follow_symlinks=False)]
        return [RunDirectory(entry.name, entry.path) for entry in sorted(found, key=_age)]

    def all_archives(self) -> list[str]:
        """Return every agent archive, oldest first."""
        with os.scandir(self.agents) as entries:
            found = [entry for entry in entries if entry.name.endswith(".pyz")]
        return [entry.path for entry in sorted(found, key=_age)]


def _age(entry: os.DirEntry[str]) -> tuple[float, str]:
    """Return a key that sorts oldest first; an entry that has vanished counts as oldest."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime, entry.name
    except FileNotFoundError:
        return 0.0, entry.name


def default_root() -> str:
    return os.path.join(os.path.realpath("/var/tmp"), f"pylaunch-{os.getuid()}")


def open_root(template: str, *, make: bool = True) -> NodeRoot:
    """Return the node root at `template`, with our numeric user id for `{user}`; created if missing and `make`.

    Raises AgentError if the path is not a directory that our user owns and others cannot access.
    """
    wanted = os.path.abspath(template.replace("{user}", str(os.getuid())))
    path = os.path.join(os.path.realpath(os.path.dirname(wanted)), os.path.basename(wanted))
    root = NodeRoot(path)
    try:
        if make:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # Checked below.
    except OSError as error:
        raise AgentError(f"node root {path} cannot be made: {error.strerror}") from None
    if os.path.lexists(path):
        problem = _problem(os.lstat(path))
        if problem is not None:
            raise AgentError(f"node root {path} {problem}; it may be a trap: look at it, then remove it")
    if make:
        for directory in (root.agents, root.runs):
            os.makedirs(directory, mode=0o700, exist_ok=True)
    return root


def _problem(status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if status.st_uid != os.getuid():
        return f"belongs to user id {status.st_uid}, not to us ({os.getuid()})"
    if status.st_mode & 0o077:
        return f"is open to others (mode {stat.S_IMODE(status.st_mode):04o}, expected 0700)"
    return None
