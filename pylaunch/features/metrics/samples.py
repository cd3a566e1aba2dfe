"""Numbers of a live run and of its nodes at one moment, and the class of an end. Pure."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import base_of
from pylaunch.model.text.sanitise import visible_line
from pylaunch.protocol.usage_report import Usage
from pylaunch.terminal.views.board import Board
from pylaunch.verdict.causes.cause_kinds import KINDS

HANG, UNKNOWN = "hang", "unknown"
"""Kinds of failures beside those of causes."""

LONGEST_LABEL = 253
"""Characters of a host name in DNS."""


@dataclass(frozen=True)
class NodeMetrics:
    """One node of a run."""

    node: str
    is_up: bool
    """It has answered, and contact is not lost."""

    heard_at: float | None
    """Last answer on the monotonic clock of this machine; None before the first."""

    devices: int
    usage: Usage | None
    clock_offset: float | None = None


@dataclass(frozen=True)
class RunMetrics:
    """One run, in its current attempt."""

    run: str
    restarts: int
    started_at: float | None
    ranks: Mapping[str, int]
    """Number of ranks by state: waiting, running, ended, unknown (contact with their node is lost)."""

    slowest: float | None
    """Step of the slowest rank; None where ranks neither mark nor print steps."""

    furthest: float | None
    steps_per_second: float | None
    nodes: tuple[NodeMetrics, ...]


def sample_of(board: Board, heard: Mapping[str, float], clocks: Mapping[str, float], now: float) -> RunMetrics:
    """Return the numbers of `board` at `now`, seconds since the epoch.

    `heard` has the last answer of each host, `clocks` the offset of its clock.
    """
    plan = board.plan
    lost = {rank.rank for node in plan.nodes if node.host.name in board.lost for rank in node.ranks} - board.ended
    running = board.running - lost
    counts = {"running": len(running), "ended": len(board.ended), "unknown": len(lost)}
    counts["waiting"] = max(0, plan.world_size - sum(counts.values()))
    slowest, furthest = board.extremes() or (None, None)
    has_steps = slowest is not None and slowest.unit == "step"
    nodes = tuple(
        NodeMetrics(
            visible_line(node.host.name)[:LONGEST_LABEL],
            node.host.name in heard and node.host.name not in board.lost,
            heard.get(node.host.name),
            len(node.devices),
            board.usage.get(node.host.name),
            clocks.get(node.host.name),
        )
        for node in plan.nodes
    )
    return RunMetrics(
        base_of(plan.run),
        plan.restart,
        board.started_at,
        counts,
        slowest.step if slowest is not None and has_steps else None,
        furthest.step if furthest is not None and has_steps else None,
        board.pace.rate(slowest.rank, now) if slowest is not None and has_steps else None,
        nodes,
    )


def ends_of_no_attempt() -> dict[tuple[str, str], int]:
    """Return each status and kind of `class_of_end` with 0: an increase is seen only from a value before it."""
    others = [(status.value, "") for status in Status if status is not Status.FAILED]
    return dict.fromkeys([*others, *((Status.FAILED.value, kind) for kind in (*KINDS, HANG, UNKNOWN))], 0)


def class_of_end(outcome: Outcome) -> tuple[str, str]:
    """Return the status of an end, and for a failure the kind of its first cause, else ""."""
    if outcome.status is not Status.FAILED:
        return outcome.status.value, ""
    kind = HANG if outcome.is_hang else outcome.causes[0].kind if outcome.causes else UNKNOWN
    return outcome.status.value, kind if kind in (*KINDS, HANG) else UNKNOWN
