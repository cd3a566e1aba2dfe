"""Facts of a node that explain a failure, from its message: bounded, its times on the controller's clock."""

from __future__ import annotations

from collections.abc import Callable

from pylaunch import protocol
from pylaunch.model.host_evidence import HostEvidence, KernelEvent, StuckConnection

MOST = 64
"""Entries of each kind that are kept: an agent sends no more."""

LONGEST = 300


def host_evidence(
    host: str, message: protocol.NodeEvidence, to_ours: Callable[[float], float], uncertainty_s: float
) -> HostEvidence:
    """Return what `host` reported; `to_ours` converts its times to the controller's clock."""
    return HostEvidence(
        host,
        to_ours(message.time),
        uncertainty_s,
        tuple(
            KernelEvent(
                _cut(each.kind), to_ours(each.time), _cut(each.text), _cut(each.device), each.code, each.pid, each.rank
            )
            for each in message.kernel[-MOST:]
        ),
        tuple(
            StuckConnection(
                each.rank, _cut(each.state), _cut(each.peer), each.peer_port, each.send_queue, each.receive_queue,
                each.retransmits, each.probes, each.local_port,
            )
            for each in message.sockets[:MOST]
        ),
        message.connections,
        tuple(map(_cut, message.addresses[:MOST])),
        {_cut(name): rise for name, rise in list(message.rises.items())[:MOST] if rise > 0},
        {_cut(name): value for name, value in list(message.gauges.items())[:MOST]},
        message.clock_step_s,
        tuple(map(_cut, message.missing[:MOST])),
    )  # fmt: skip


def _cut(text: str) -> str:
    return text[:LONGEST]
