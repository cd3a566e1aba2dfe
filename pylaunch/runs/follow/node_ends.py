"""Ends and stops as nodes report them, as values of the model; and the order to stop, as a message. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pylaunch import protocol
from pylaunch.base.dataclass import replace
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.verdict.run_state import StopAll

EXIT_S = 30.0
"""Longest time between an exception and the exit of its rank; an earlier time is not believed."""


def rank_end(host: str, end: RankEnd, at: float, uncertainty_s: float, *, is_stopping: bool) -> RankEnd:
    """Return the end of a rank or of the launcher that `host` reports; `at` is its time on the controller's clock.

    A launcher that ends after an order to stop was stopped.
    """
    stopped = end.stopped or (end.rank is None and is_stopping)
    return replace(end, host=host, time=at, stopped=stopped, uncertainty_s=uncertainty_s)


def time_of(message: RankEnd) -> float:
    """Return the time of a failure on the node's clock: libraries take seconds between an exception and the exit.

    A victim wrote its exception after another rank failed, and is not earlier for that.
    """
    if message.rank is None or message.symptom:
        return message.time
    is_known = message.time - EXIT_S <= message.raised_at <= message.time
    return message.raised_at if is_known else message.time


def stop_reason(host: str, message: protocol.Stopping, hosts: Iterable[str]) -> str:
    """Return the reason of a stop with the host where it began: one that came from another node names that node."""
    is_named = any(message.reason.startswith((f"{name}:", f"{name} lost:")) for name in hosts)
    return message.reason if is_named else f"{host}: {message.reason}"


def stop_order(stop: StopAll) -> protocol.Stop:
    """Return the message that orders a node to stop."""
    return protocol.Stop(stop.grace.total_seconds(), stop.reason, by_hand=stop.by_hand)
