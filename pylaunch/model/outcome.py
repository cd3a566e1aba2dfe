"""How a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from signal import Signals

from pylaunch.model.size import shown_size

AT_EXIT = "terminate called without an active exception"
"""What C++ says when a thread cannot go on, which Python does to those that come to it while it goes away.

PyTorch issue 190489: a thread of gloo that still lets go of a tensor when its rank is done.
"""
AT_EXIT_SAID = "a thread was still at work as it ended; with gloo see pylaunch help frameworks"


class Status(Enum):
    """The one word for a run."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    REFUSED = "refused"
    """No rank was ever started."""


@dataclass(frozen=True)
class MemoryKill:
    """The kernel ended a process for lack of memory when a rank ended."""

    certain: bool
    """It was this rank; else it is only likely."""

    limit: int
    """Bytes that there were."""

    of: str
    """Whose limit that is: "cgroup" or "host"."""

    @property
    def text(self) -> str:
        """In words: "out of memory (limit of the cgroup: 512 MiB)"."""
        likely = "" if self.certain else "likely "
        what = "memory" if self.of == "host" else "limit"
        return f"{likely}out of memory ({what} of the {self.of}: {shown_size(self.limit)})"


@dataclass(frozen=True)
class RankEnd:
    """How one rank ended, or one node's launcher (then `rank` is None)."""

    rank: int | None
    host: str
    exit_code: int | None
    signal: int | None
    """Exactly one of `exit_code` and `signal` is set."""

    time: float
    """Seconds since the epoch on the controller's clock, the node's clock offset taken out."""

    stopped: bool
    """It was told to end."""

    last_lines: tuple[str, ...] = ()
    error: str = ""
    """The exception it left behind, and where it was raised: "RuntimeError: loss is NaN (train.py:12)"."""

    step: int | None = None
    """The last step it had marked."""

    symptom: str = ""
    """What other ranks did to it, "lost the connection to another rank"; "" for an end with a cause of its own."""

    out_of_memory: MemoryKill | None = None
    """The kernel ended processes for lack of memory at that moment."""

    @property
    def failed(self) -> bool:
        """It ended badly, of itself."""
        return self.exit_code != 0 and not self.stopped

    @property
    def how(self) -> str:
        """What it did, in words: "exited with code 1", "was killed by SIGKILL after step 20"."""
        after = "" if self.step is None or self.exit_code == 0 else f" after step {self.step}"
        why = self.error or (AT_EXIT_SAID if self._aborted_at_exit else "")
        memory = "" if self.out_of_memory is None else self.out_of_memory.text
        return ": ".join(filter(None, (f"{self._end}{after}", "; ".join(filter(None, (why, memory))))))

    @property
    def _aborted_at_exit(self) -> bool:
        return self.signal == Signals.SIGABRT and any(AT_EXIT in line for line in self.last_lines)

    @property
    def _end(self) -> str:
        if self.signal is None:
            return f"exited with code {self.exit_code}"
        try:
            return f"was killed by {Signals(self.signal).name}"
        except ValueError:
            return f"was killed by signal {self.signal}"

    @property
    def who(self) -> str:
        """In words: "rank 3 on n2"."""
        return f"the launcher on {self.host}" if self.rank is None else f"rank {self.rank} on {self.host}"


@dataclass(frozen=True)
class UnfinishedRank:
    """A rank that had not ended when its node began to stop."""

    rank: int
    state: str
    """The letter of /proc/PID/stat; "" is unknown."""

    silent_s: float | None
    """Seconds since its last output; None when it wrote none."""

    step: int | None

    @property
    def is_stopped(self) -> bool:
        """By a signal or a debugger."""
        return self.state in ("T", "t")


@dataclass(frozen=True)
class Named:
    """A rank, or a whole node (then `rank` is None), that a failure is put down to."""

    host: str
    rank: int | None


@dataclass(frozen=True)
class Outcome:
    """How a run ended, on all nodes."""

    status: Status
    reason: str
    """Why, in one line."""

    ended_at: float
    ends: tuple[RankEnd, ...]
    leftovers: Mapping[str, tuple[str, ...]]
    """What could not be removed, by host; empty is the proof of clean."""

    unproven: tuple[str, ...] = ()
    """Hosts that could not be asked whether they are clean."""

    first_failure: RankEnd | None = None
    """The end whose last lines tell most: that of the rank that is named, else that of the first victim."""

    named: Named | None = None
    """Whom the failure is put down to; None where the evidence names nobody."""

    by_hand: bool = False
    """A person asked for the end, whatever else happened."""

    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where no rank was started: why each host could not take part."""

    evidence: tuple[str, ...] = ()
    """What stood below the reason when it was first reported, a line each."""

    hint: str = ""
    """What to type next, as it was first reported."""

    @property
    def furthest_step(self) -> int | None:
        """The furthest step that any rank has marked."""
        return max((end.step for end in self.ends if end.step is not None), default=None)
