"""Records of runs on the controller: the plan once, events appended as they happen, the outcome once.

If the controller dies, the files show how far it got: the plan and the outcome are written aside and renamed, an event
is one line that is written at once, and the reader ignores a torn line. A full disk costs the record, never the run:
the first write that fails is reported.
"""

import contextlib
import fcntl
import getpass
import os
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.job import RolePart
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan, attempt_of, base_of, without_secrets
from pylaunch.model.run import Event, RunRecord
from pylaunch.model.text import typed_json
from pylaunch.model.text.argv import quoted
from pylaunch.protocol.examination import RankView
from pylaunch.store.files import PRIVATE, append, make_private, run_paths, runs_directory, state_directory, write_whole

T = TypeVar("T")

KEPT = 200
"""Ended runs whose records are kept, with all attempts of each."""

LOOK_S = 0.01
"""Longer than the question for the controller of a run shares the lock."""

TRIES = 200
"""Until a process that was stopped while it asked counts as the controller."""

ELSEWHERE = 0
"""In place of a process id: the controller is on another machine, with this directory on a shared file system."""


class _Head(msgspec.Struct):
    created_at: float
    agent: str
    plan: RunPlan
    is_foreign: bool = False
    started_by: str = ""


def new_run_id(random_hex: Callable[[int], str] = secrets.token_hex) -> str:
    """Return an id that no record here has: eight hexadecimal digits."""
    while True:
        run = random_hex(4)
        if not run_paths(run).directory.exists():
            return run


class UnknownRunError(UsageError):
    """No run with this id is recorded here."""


def begin(plan: RunPlan, agent: str, now: float, *, is_foreign: bool = False) -> None:
    """Begin the record of a run. The directory is ours alone; values of options that name a secret are not recorded.

    `is_foreign` says that the plan was read from nodes (see `node_record`).

    Raises UsageError where that is not possible: a run that nobody can find again is not begun.
    """
    paths = run_paths(plan.run)
    with _refused_if_unwritten(paths.directory):
        make_private(paths.directory, state_directory())
        started_by = "" if is_foreign else user_and_host()
        write_whole(paths.plan, msgspec.json.encode(_Head(now, agent, without_secrets(plan), is_foreign, started_by)))


@contextlib.contextmanager
def _refused_if_unwritten(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{directory}: the record of the run cannot be written: {error.strerror}",
            hint="make room there, or keep records elsewhere: XDG_STATE_HOME=DIR",
        ) from None


class Recorder:
    """Writes the record of one run; calls `complain` with the first error."""

    def __init__(self, run: str, complain: Callable[[str], None]) -> None:
        self._paths = run_paths(run)
        self._complain = complain
        self._is_incomplete = False
        self._charge: int | None = None

    def take_charge(self, pause: Callable[[float], object] = time.sleep) -> bool:  # noqa: TID251
        """Become the controller of this run until this process ends or gives up charge; False if another is, or where
        that cannot be written."""
        if self._charge is None:
            try:
                held = os.open(self._paths.controller, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                self._report(error)
                return False
            for _ in range(TRIES):
                if _has_locked(held, fcntl.LOCK_EX):
                    break
                # Whoever asks for the controller (`controller`) shares the lock for a moment.
                if not _has_locked(held, fcntl.LOCK_SH):
                    os.close(held)
                    return False
                fcntl.flock(held, fcntl.LOCK_UN)
                pause(LOOK_S)
            else:
                os.close(held)
                return False
            self._charge = held
            with self._errors_reported():
                os.truncate(held, 0)
                os.write(held, str(os.getpid()).encode())
        return True

    def give_up_charge(self) -> None:
        """Be the controller of this run no longer."""
        if self._charge is not None:
            os.close(self._charge)
            self._charge = None

    def keep_essentials(self, essentials: Mapping[str, Mapping[str, str]]) -> None:
        """Write what the nodes reported of facts that must be equal: host → fact → value."""
        with self._errors_reported():
            write_whole(self._paths.essentials, msgspec.json.encode(essentials))

    def append(self, entry: Event | RankView | Finding) -> None:
        """Append an event, a view of a rank, or a finding beside the start; it is written when this returns."""
        paths = self._paths
        of_kind = {Event: paths.events, RankView: paths.views, Finding: paths.findings}
        with self._errors_reported():
            append(of_kind[type(entry)], msgspec.json.encode(entry) + b"\n")

    def ask_to_stop(self) -> None:
        """Record that a person stopped this run, so that no attempt follows."""
        marker = run_paths(base_of(self._paths.directory.name)).stop_asked
        if marker.parent.is_dir():  # Not so for a run that another controller started.
            with self._errors_reported():
                marker.touch(mode=PRIVATE)

    def finish(self, outcome: Outcome) -> None:
        """Write the outcome."""
        with self._errors_reported():
            write_whole(self._paths.outcome, msgspec.json.encode(outcome))

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._report(error)

    def _report(self, error: OSError) -> None:
        if not self._is_incomplete:
            self._is_incomplete = True
            run = self._paths.directory.name
            self._complain(f"the record of run {run} is incomplete: it cannot be written ({error.strerror})")


def _has_locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def controller(run: str) -> int | None:
    """Return the process id of the controller of `run`; None if there is none, ELSEWHERE on another machine."""
    path = run_paths(run).controller
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.read(descriptor, 32)
        return None if not written.isdigit() else int(written) if _has_open(int(written), descriptor) else ELSEWHERE
    finally:
        os.close(descriptor)
    return None


def _has_open(pid: int, descriptor: int) -> bool:
    """Return whether process `pid` of this machine has the same file open; True where the kernel does not report it."""
    try:
        ours = Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return True
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if each.readlink() == ours:
                    return True
    return False


def is_stopped(pid: int) -> bool:
    """Return True if SIGSTOP or Ctrl-Z has stopped a process of this machine."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b") ")[2][:1] == b"T"


def adopt(record: RunRecord) -> None:
    """Begin a record of a run that was started elsewhere, as old as the run is; one that is there stays as it is."""
    paths = run_paths(record.plan.run)
    if not paths.directory.exists() and not _is_of_our_run(record.plan.run):
        begin(record.plan, record.agent, record.created_at, is_foreign=True)
        os.utime(paths.plan, (record.created_at, record.created_at))


def with_reachable_hosts(record: RunRecord, cluster: Cluster) -> RunRecord:
    """Return `record` with those hosts that `cluster` can reach, as `cluster` reaches them. The file stays as it is."""
    known = {host.name: host for host in cluster.hosts if host.connection is not Connection.NONE}
    nodes = tuple(
        replace(node, host=_at(node.host, known.get(node.host.name, node.host))) for node in record.plan.nodes
    )
    plan = replace(record.plan, nodes=nodes, known_hosts=cluster.known_hosts, sources=cluster.sources)
    return record if nodes == record.plan.nodes else replace(record, plan=plan)


def _is_of_our_run(attempt: str) -> bool:
    """Return True for an unrecorded attempt of a run that was started here: nodes cannot add attempts to it."""
    base = base_of(attempt)
    if not run_paths(base).plan.exists():
        return False
    try:
        return not read(base).is_foreign
    except UsageError:
        return True


def _at(host: Host, now: Host) -> Host:
    return replace(
        host, address=now.address, connection=now.connection, ssh=now.ssh, slurm_job=now.slurm_job,
        fabric_address=now.fabric_address, agent_python=now.agent_python, node_root=now.node_root,
    )  # fmt: skip


def read(run: str) -> RunRecord:
    """Return the record of run `run` (its whole id). Raises UsageError if it is damaged, naming the file."""
    paths = run_paths(run)
    try:
        head = typed_json.decoded(paths.plan.read_bytes(), _Head)
        outcome = None
        if paths.outcome.exists():
            outcome = typed_json.decoded(paths.outcome.read_bytes(), Outcome)
        return RunRecord(
            head.plan,
            head.agent,
            head.created_at,
            _entries(paths.events, Event),
            outcome,
            head.is_foreign,
            head.started_by,
        )
    except (OSError, msgspec.DecodeError) as error:
        place = (str(paths.directory),)
        is_denied = isinstance(error, PermissionError)
        hint = f"sudo chown -R $USER {quoted(place)}" if is_denied else f"rm -r {quoted(place)}  # forgets this run"
        raise UsageError(f"the record of run {run} cannot be read: {error}", hint=hint) from None


def _entries(path: Path, kind: type[T]) -> tuple[T, ...]:
    """Return what `Recorder.append` wrote, without lines torn by a death or by a disk that was full for a while."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(msgspec.DecodeError):
            found.append(typed_json.decoded(line, kind))
    return tuple(found)


def views(run: str) -> tuple[RankView, ...]:
    """Return the views of ranks in the record of `run`, the last one of each rank, by rank."""
    found = {view.rank: view for view in _entries(run_paths(run).views, RankView)}
    return tuple(found[rank] for rank in sorted(found))


def ids() -> list[str]:
    """Return all recorded runs, the newest first, with those that this user cannot read."""
    directory = runs_directory()
    ages: dict[str, float] = {}
    for path in directory.iterdir() if directory.is_dir() else ():
        try:
            ages[path.name] = (path / "plan.json").stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):  # Another controller may forget it meanwhile.
            continue
        except OSError:
            ages[path.name] = path.lstat().st_mtime
    return sorted(ages, key=lambda run: ages[run], reverse=True)


def readable(complain: Callable[[str], None]) -> Iterator[RunRecord]:
    """Yield every record, the newest first; call `complain` for each that is damaged."""
    for run in ids():
        try:
            yield read(run)
        except UsageError as error:
            complain(error.render())


def find(text: str) -> str:
    """Return the id of the run that `text` means (see `meant`).

    Raises UnknownRunError for none, UsageError for several.
    """
    found = meant(text, ids())
    if not found:
        raise UnknownRunError(
            f"no {'attempt' if '.' in text else 'run'} {text} is recorded here", hint="pylaunch ps --all"
        )
    runs = sorted({base_of(run) for run in found})
    if len(runs) > 1:
        raise UsageError(f"{text} begins {len(runs)} runs: {', '.join(runs)}", hint="give more digits")
    return found[-1]


def meant(text: str, known: Iterable[str]) -> list[str]:
    """Return the `known` ids that `text` means, by run and attempt. Pure.

    It is an id or the beginning of one, which means all attempts of that run; `RUN.0` is the first of them alone.
    """
    beginning, dot, number = text.partition(".")
    found = [run for run in known if base_of(run).startswith(beginning)]
    if dot:
        found = [run for run in found if str(attempt_of(run)) == number]
    return sorted(found, key=lambda run: (base_of(run), attempt_of(run)))


def attempts(run: str) -> list[str]:
    """Return all recorded attempts of the run of `run`, the first first."""
    return [each for each in meant(base_of(run), ids()) if base_of(each) == base_of(run)]


def is_asked_to_stop(run: str) -> bool:
    """Return True if a person stopped an attempt of this run."""
    return run_paths(base_of(run)).stop_asked.exists()


def prune(keep: int = KEPT) -> None:
    """Forget the oldest ended runs beyond `keep`. A run with an attempt that may still be live stays whole."""
    attempts: dict[str, list[str]] = {}
    for run in ids():
        attempts.setdefault(base_of(run), []).append(run)
    ended = [each for each in attempts.values() if all(os.access(run_paths(run).outcome, os.F_OK) for run in each)]
    for each in ended[keep:]:
        for run in each:
            shutil.rmtree(run_paths(run).directory, ignore_errors=True)


class _Job(msgspec.Struct):
    part: RolePart | None = None


class _Plan(msgspec.Struct):
    job: _Job


class _PartOfHead(msgspec.Struct):
    plan: _Plan
    is_foreign: bool = False


def recorded_parts() -> dict[str, RolePart]:
    """Return the part of a job that each recorded run is, by run.

    Nodes add no run to a job that was started here: of such a job, only runs that were started here count.
    """
    own: dict[str, RolePart] = {}
    foreign: dict[str, RolePart] = {}
    for attempt in ids():
        run = base_of(attempt)
        if run in own or run in foreign:
            continue
        with contextlib.suppress(OSError, msgspec.DecodeError):  # Readers of all records report it.
            head = typed_json.decoded(run_paths(attempt).plan.read_bytes(), _PartOfHead)
            if head.plan.job.part is not None:
                (foreign if head.is_foreign else own)[run] = head.plan.job.part
    jobs = {part.job for part in own.values()}
    return own | {run: part for run, part in foreign.items() if part.job not in jobs}


def user_and_host() -> str:
    """Return "alice on laptop": the user of this process, or the number of a user without a name, and this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user id {os.getuid()}"
    return f"{user} on {socket.gethostname()}"
