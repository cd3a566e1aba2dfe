"""Ends of ranks and of the launcher: what they wrote and reported, and what their node shows of a failure.

Whether a rank is the victim of another one is judged on the controller. Here, a text in its output decides only how
long the node holds the other ranks (`lifecycle`), and whether the node is searched for a cause.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping

from pylaunch import protocol
from pylaunch.agent.evidence import rank_report, rank_states, symptoms
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.out_of_memory import Memory
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import LAST_LINES, last_lines
from pylaunch.agent.shared.event_loop import Part
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.layout import RunDirectory

LAUNCHER = "launcher"
CAUSE_LINES = 200
"""Number of last lines searched for the cause of an end: an abort may write a long stack trace after the cause."""

WRITTEN_LINES, WRITTEN_BYTES = 20_000, 1 << 20
"""End of stderr of a rank that exited with code 0, in which an exception of a thread is looked for."""


@dataclass(frozen=True)
class Ended:
    """End of a rank, or of the launcher (None), with its status of waitpid."""

    rank: int | None
    pid: int
    status: int
    time: float
    was_signalled: bool
    """pylaunch or the launcher had sent the process a signal."""

    @property
    def signal(self) -> int | None:
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None

    @property
    def exit_code(self) -> int | None:
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None

    @property
    def failure(self) -> str | None:
        """Description of the failure; None for a good end."""
        if self.status == 0:
            return None
        name = name_of(self.rank)
        if self.signal is None:
            return f"{name} ended with exit code {self.exit_code}"
        return f"{name} was killed by {signal_name(self.signal)}"


def signal_name(signum: int) -> str:
    """Return the name of a signal: SIGSEGV for 11."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def name_of(rank: int | None) -> str:
    """Return the name of a rank, or of the launcher (None), in messages."""
    return LAUNCHER if rank is None else f"rank {rank}"


class RankEnds(Part):
    """Source of the facts about ends in one run; `streams`: stream name → log file."""

    def __init__(
        self, task: protocol.NodeTask, directory: RunDirectory, streams: Mapping[str, str], mask: Mask,
        kernel: KernelLog,
    ) -> None:  # fmt: skip
        self._task = task
        self._directory = directory
        self._streams = streams
        self._mask = mask
        self._kernel = kernel
        self._memory = Memory()

    def tick(self, now: float) -> None:
        """Sample the memory."""
        self._memory.tick(now)

    def of_launcher(self, ended: Ended, *, is_stopping: bool) -> protocol.RankEnd:
        """Return the end of the launcher, which a stop of the run has ended."""
        last = self._last_lines(LAUNCHER)
        symptom = symptoms.symptom(ended.exit_code, ended.signal, "", last)
        return protocol.RankEnd(
            None, "", ended.exit_code, ended.signal, ended.time, ended.was_signalled or is_stopping,
            tuple(last[-LAST_LINES:]), symptom=symptom,
        )  # fmt: skip

    def of_rank(self, ended: Ended, rank: int, *, is_held: bool, terminated_at: float) -> protocol.RankEnd:
        """Return the end of `rank`.

        `is_held`: another rank failed before because of a third one, and a launcher may end the others.
        `terminated_at`: time of the first SIGTERM to ranks; 0 if there was none.
        """
        last = self._last_lines(str(rank))
        raised_at = rank_states.written_at(rank, self._streams) if symptoms.ends_with_exception(last) else 0.0
        found = protocol.RankEnd(
            rank, "", ended.exit_code, ended.signal, ended.time, ended.was_signalled, tuple(last[-LAST_LINES:]),
            rank_report.error(self._directory, rank, self._mask, self._task.workdir),
            rank_report.last_step(self._directory, rank), raised_at=raised_at, terminated_at=terminated_at,
        )  # fmt: skip
        error = found.error
        if ended.status == 0 and not found.obeyed:
            error = error or symptoms.uncaught(self._written_last(rank))
        exit_code = 1 if error and not ended.status else ended.exit_code
        found = replace(found, error=error, symptom=symptoms.symptom(exit_code, ended.signal, error, last))
        is_expected = ended.status == 0 or (found.obeyed and is_held)
        return found if is_expected else self._explained(found, ended, last)

    def _explained(self, found: protocol.RankEnd, ended: Ended, last: list[str]) -> protocol.RankEnd:
        """Return the end of a rank that failed, with what its output and its node explain of it."""
        error = found.error
        if ended.signal in (None, signal.SIGABRT):
            error = error or symptoms.last_exception(last)
        if not found.obeyed:
            error = "; ".join(filter(None, (error, *self._full_disks(error))))
        memory = None
        if not found.symptom:
            by_sigkill = ended.signal == signal.SIGKILL
            is_logged = by_sigkill and self._kernel.has_killed_for_memory(ended.pid)
            memory = self._memory.killer(by_sigkill=by_sigkill, is_logged=is_logged)
        return replace(found, error=error, out_of_memory=memory)

    def _full_disks(self, error: str) -> list[str]:
        """Return the full file systems that the run uses; a traceback may be lost there as well."""
        temporary = self._task.env.get("TMPDIR", "/tmp")
        used = [self._directory.path, self._task.workdir, temporary, "/dev/shm", *existing_directory(error)]
        return full(used)

    def _last_lines(self, name: str) -> list[str]:
        paths = self._streams[name + ".err"], self._streams[name + ".out"]
        return last_lines(*paths, count=CAUSE_LINES, mask=self._mask)

    def _written_last(self, rank: int) -> list[str]:
        """Return the last lines of stderr of `rank`, in which an exception of a thread may be long ago."""
        return last_lines(self._streams[f"{rank}.err"], count=WRITTEN_LINES, mask=self._mask, within=WRITTEN_BYTES)


# File systems without room for a rank

LEAST_BYTES = 64 << 10
LEAST_INODES = 4
"""Below these limits, writes of a rank have failed or soon will."""


def full(paths: Iterable[str]) -> list[str]:
    """Return a phrase for each full file system among `paths`, named by the first path on it."""
    seen: dict[int, str] = {}
    for path in paths:
        try:
            device, status = os.stat(path).st_dev, os.statvfs(path)
        except OSError:
            continue
        if device not in seen:
            seen[device] = _described(path, status)
    return [phrase for phrase in seen.values() if phrase]


def _described(path: str, status: os.statvfs_result) -> str:
    is_root = os.getuid() == 0
    free = (status.f_bfree if is_root else status.f_bavail) * status.f_frsize
    inodes = status.f_ffree if is_root else status.f_favail
    is_full = bool(status.f_blocks) and free < LEAST_BYTES
    if not is_full and not (status.f_files and inodes < LEAST_INODES):
        return ""
    if is_full:
        return f"{path} is full ({free >> 10} KiB of {(status.f_blocks * status.f_frsize) >> 20} MiB free)"
    return f"{path} has no inodes left ({inodes} of {status.f_files} free)"


_PATH = re.compile(r"'(/[^'\0]{1,400})'")


def existing_directory(error: str) -> list[str]:
    """Return the deepest directory that is there of the first path in `error`; [] without a path."""
    for path in _PATH.findall(error)[:1]:
        while path != "/" and not os.path.isdir(path):
            path = os.path.dirname(path)
        return [path]
    return []
