"""What a node tells of itself, on our clock."""

from __future__ import annotations

from collections.abc import Callable

from pylaunch.agent import wire
from pylaunch.model.usage import NodeUsage, RankStep


def node_usage(told: wire.Usage, to_ours: Callable[[float], float]) -> NodeUsage:
    """`told` as a value; `to_ours` takes a time of that node to our clock."""
    steps = tuple(RankStep(mark.rank, mark.step, to_ours(mark.time), mark.total) for mark in told.steps)
    return NodeUsage(**{**vars(told), "steps": steps})
