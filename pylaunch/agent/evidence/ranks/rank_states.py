"""States of running ranks: state of their processes, time of their last output, last step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping

from pylaunch import protocol
from pylaunch.agent.evidence import symptoms
from pylaunch.agent.evidence.ranks import rank_report
from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.logs.tail import last_lines
from pylaunch.agent.shared.text import stat_of, text_of
from pylaunch.base.layout import RunDirectory

STOPPED = "Tt"
"""Letters of a process that a signal or a debugger has stopped."""

SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh", "timeout", "nice", "numactl", "taskset", "env", "setsid"}
"""Programs that run one other program and wait for it."""

MOST = 200
"""Processes of one rank that are read."""


def states(
    pids: Mapping[int, int], streams: Mapping[str, str], directory: RunDirectory, mask: Mask
) -> list[protocol.RankState]:
    """Return the state of each rank in `pids` (rank → process id); `streams`: stream name → log file."""
    now = time.time()
    found = []
    for rank, pid in sorted(pids.items()):
        lines = last_lines(streams[f"{rank}.err"], streams[f"{rank}.out"], mask=mask)
        error = rank_report.error(directory, rank, mask)
        if not error and symptoms.ends_with_exception(lines):
            error = symptoms.last_exception(lines)
        symptom = symptoms.symptom(1, None, error, lines)
        step = rank_report.last_step(directory, rank)
        found.append(protocol.RankState(rank, state(pid), silent_s(rank, streams, now), step, error, symptom))
    return found


def state(pid: int) -> str:
    """Return the state letter of `pid`, or of a stopped process that does its work; "" if it is gone."""
    stopped = stopped_on_path(worker_of(pid), pid)
    return letter(pid if stopped is None else stopped)


def worker_of(pid: int) -> int:
    """Return the process that does the work of `pid`: of a shell with one child, that child."""
    for _ in range(8):
        try:
            name = text_of(f"/proc/{pid}/comm").strip()
            children = text_of(f"/proc/{pid}/task/{pid}/children").split()
        except OSError:
            return pid
        if name not in SHELLS or len(children) != 1:
            return pid
        pid = int(children[0])
    return pid


def stopped_on_path(pid: int, first: int) -> int | None:
    """Return the first stopped process from `pid` up to its ancestor `first`. Other descendants, such as workers of a
    DataLoader, may be stopped while the rank runs."""
    return next((each for each in _path(pid, first) if letter(each) in tuple(STOPPED)), None)


def letter(pid: int) -> str:
    """Return the state letter of a process or thread; "" if it is gone."""
    return (stat_of(pid) or [""])[0]


def family(pid: int) -> Iterator[int]:
    """Yield `pid` and its descendants, at most MOST."""
    waiting, seen = [pid], 0
    while waiting and seen < MOST:
        each = waiting.pop()
        seen += 1
        yield each
        try:
            threads = os.listdir(f"/proc/{each}/task")
            for thread in threads[:MOST]:
                waiting += map(int, text_of(f"/proc/{each}/task/{thread}/children").split())
        except OSError:
            continue


def distance(pid: int, first: int) -> int:
    """Return the number of generations from `first` down to its descendant `pid`; at most MOST."""
    return next((number for number, each in enumerate(_path(pid, first)) if each == first), MOST)


def _path(pid: int, first: int) -> Iterator[int]:
    """Yield `pid` and its ancestors, at most MOST, to `first` if that is one."""
    for _ in range(MOST):
        yield pid
        fields = stat_of(pid)
        if pid == first or len(fields) < 2:
            break
        pid = int(fields[1])


def silent_s(rank: int, streams: Mapping[str, str], now: float) -> float | None:
    """Return the seconds since the last output of `rank`; None if it wrote none."""
    at = written_at(rank, streams)
    return max(0.0, now - at) if at else None


def are_failing(ranks: Iterable[int], streams: Mapping[str, str]) -> bool:
    """Return True if the last line of one of `ranks` is an exception."""
    return any(symptoms.ends_with_exception(last_lines(streams[f"{rank}.err"])) for rank in ranks)


def written_at(rank: int, streams: Mapping[str, str]) -> float:
    """Return the time of the last output of `rank`; 0 if it wrote none."""
    written: dict[str, float] = {}
    for end in ("out", "err"):
        try:
            status = os.lstat(streams[f"{rank}.{end}"])
        except OSError:
            continue
        if status.st_size:
            written[end] = status.st_mtime
    return max(written.values(), default=0.0)
