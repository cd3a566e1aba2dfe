"""Utilization of this node from /proc and nvidia-smi, and signs of life of its ranks, while a controller watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pylaunch import protocol
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.programs import ProgramOutput, path_of
from pylaunch.agent.shared.text import meminfo, text_of

LOOPBACK = "lo"
SMI_WORDS = ("--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits")

SMI_PERIOD_S = 2.0
"""Time between two calls of nvidia-smi, for any number of watching controllers."""

SMI_STALE_S = 10.0
"""Age at which an answer is dropped: the driver may hang."""

MOST_BYTES = 1 << 16
NO_DEVICES: tuple[float | None, int, int] = (None, 0, 0)


class UsageMeter:
    """Source of the utilization for one watching controller, every `every_s`. All meters share one `smi`."""

    def __init__(self, every_s: float, smi: Smi, steps: Callable[[], list[protocol.StepMark]]) -> None:
        self._every_s = every_s
        self._next = 0.0
        self._before: tuple[float, tuple[int, int], tuple[int, int]] | None = None
        self._smi = smi
        self._steps = steps

    def read(self, now: float) -> protocol.Usage | None:
        """Return the utilization since the last call; None before the next is due. `now` is monotonic."""
        if now < self._next:
            return None
        self._next = now + self._every_s
        counted = (now, cpu_ticks(text_of("/proc/stat")), network_bytes(text_of("/proc/net/dev")))
        before, self._before = self._before, counted
        found = meminfo()
        total, used = found["MemTotal"], found["MemTotal"] - found["MemAvailable"]
        gpu = self._smi.latest(now)
        if before is None:
            return None
        elapsed = now - before[0]
        busy, all_ticks = (counted[1][each] - before[1][each] for each in (0, 1))
        received, sent = ((counted[2][each] - before[2][each]) / elapsed for each in (0, 1))
        return protocol.Usage(busy / all_ticks if all_ticks else 0.0, used, total, received, sent, *gpu, self._steps())


class Smi:
    """Latest answer of nvidia-smi. The agent never waits for it: a hung driver must not hang the agent."""

    def __init__(self) -> None:
        self._program = path_of("nvidia-smi")
        self._output: ProgramOutput | None = None
        self._answer = NO_DEVICES
        self._answered = 0.0
        self._next = 0.0

    def latest(self, now: float) -> tuple[float | None, int, int]:
        """Return mean utilization of all devices (None without), used and total bytes. Calls nvidia-smi when due."""
        if self._output is not None and self._output.has_ended():
            self._output.close()
            self._answer, self._answered = devices(self._output.text.decode("ascii", "replace")), now
            self._output = None
        if self._program is not None and self._output is None and now >= self._next:
            self._next = now + SMI_PERIOD_S
            self._output = ProgramOutput([self._program, *SMI_WORDS], MOST_BYTES)
        return self._answer if now - self._answered <= SMI_STALE_S else NO_DEVICES


def cpu_ticks(stat: str) -> tuple[int, int]:
    """Return busy and total ticks from the first line of /proc/stat (proc(5)). I/O wait is not busy."""
    user, nice, system, idle, wait, irq, soft, steal = (int(word) for word in stat.split("\n", 1)[0].split()[1:9])
    busy = user + nice + system + irq + soft + steal
    return busy, busy + idle + wait


def network_bytes(dev: str) -> tuple[int, int]:
    """Return bytes received and sent over all interfaces but loopback, from /proc/net/dev."""
    counts = [line.split(":", 1) for line in dev.splitlines() if ":" in line]
    words = [rest.split() for name, rest in counts if name.strip() != LOOPBACK]
    return sum(int(each[0]) for each in words), sum(int(each[8]) for each in words)


def devices(csv: str) -> tuple[float | None, int, int]:
    """Return mean utilization (0 … 1), used and total bytes of all devices in the output of nvidia-smi."""
    rows = []
    for line in csv.splitlines():
        try:
            utilization, used, total = (float(word) for word in line.split(","))
        except ValueError:  # "[N/A]", or an error message of the driver.
            continue
        rows.append((utilization, int(used) << 20, int(total) << 20))
    if not rows:
        return None, 0, 0
    return sum(row[0] for row in rows) / len(rows) / 100, sum(row[1] for row in rows), sum(row[2] for row in rows)


class ActivityMeter:
    """Source of the signs of life for one controller, every `every_s`."""

    def __init__(
        self, every_s: float, ranks: Callable[[], Iterable[int]], streams: Mapping[str, str],
        step: Callable[[int], int | None],
    ) -> None:  # fmt: skip
        self._every_s = every_s
        self._ranks = ranks
        """Returns the ranks that run."""

        self._streams = streams
        self._step = step
        self._next = 0.0
        self._last: protocol.Activity | None = None

    def read(self, now: float) -> protocol.Activity | None:
        """Return the signs of life; None before the next are due, and while nothing changes. `now` is monotonic."""
        if now < self._next:
            return None
        self._next = now + self._every_s
        signs = [self._signs(rank) for rank in sorted(self._ranks())]
        activity = protocol.Activity(signs)
        if activity == self._last:
            return None
        self._last = activity
        return activity

    def _signs(self, rank: int) -> protocol.RankSigns:
        written = sum(rank_files.size(self._streams[f"{rank}.{end}"]) for end in ("out", "err"))
        return protocol.RankSigns(rank, written, self._step(rank))
