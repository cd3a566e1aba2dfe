"""Decide which failures show a fault of a node itself, and which nodes are unhealthy. Pure; times are seconds.

A failure counts if its verdict names the node (lost, its link is down, its storage fails), or names a rank whose text
or full disk is about the machine. An error of the program, a file server and a victim never count.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.cause import Certainty, FailureCause, Named
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.model.outcome import Outcome, Status
from pylaunch.verdict.restart import hanging_host, hardware_fault

if TYPE_CHECKING:
    from pylaunch.features.history.summary import AttemptRow

WINDOW_S = 86400.0
FAILURES = 2
"""Failures for the same reason within WINDOW_S that make a node unhealthy."""

_OF_NODE = {
    "node-lost": "node lost",
    "node-restarted": "node restarted",
    "gpu": "GPU error",
    "link": "network link down",
    "path-blocked": "cut off from other nodes",
    "storage": "storage error",
}
"""Kinds of causes that name a whole node, with the reason."""

_OF_TEXT = {
    "gpu-hardware": "GPU hardware",
    "gpu-driver-hang": "GPU driver hangs",
    "fabric-manager": "NVSwitch not ready",
    "driver-mismatch": "GPU driver mismatch",
    "host-hardware": "memory or processor",
}
"""Classes of texts of a rank that are about its machine, whatever the program does."""

_FULL_DISK = re.compile(r"(?:is full|has no inodes left) \([^()]{1,80} on \w{1,20} of this node\)")
"""Report of the agent (`agent/evidence/disk_space.py`) about a disk that no other node has."""


@dataclass(frozen=True)
class UnhealthyNode:
    """A node that failed several times for the same reason."""

    host: str
    address: str
    reason: str
    times: tuple[float, ...]
    """Ends of the attempts that failed, oldest first."""

    runs: tuple[str, ...]

    @property
    def until(self) -> float:
        """Instant from which too few of the failures are within WINDOW_S."""
        return self.times[-FAILURES] + WINDOW_S


def fault_of(outcome: Outcome) -> tuple[str, str] | None:
    """Return the host whose own fault ended a run, with the reason; None for any other end."""
    if outcome.status is not Status.FAILED or outcome.by_hand:
        return None
    if outcome.hang is not None:
        if outcome.hang.kind is HangKind.DISK_WAIT:  # The storage may be shared.
            return None
        found = [(host, why) for host in outcome.hang.hosts if (why := hanging_host(outcome, host))]
        return found[0] if found else None
    cause = outcome.causes[0] if outcome.causes else None
    if cause is None or cause.named is None or cause.named != outcome.named or cause.confidence is Certainty.POSSIBLE:
        return None
    reason = _of_rank(outcome, cause) if cause.named.rank is not None else _of_whole_node(outcome, cause)
    return (cause.named.host, reason) if reason else None


def _of_whole_node(outcome: Outcome, cause: FailureCause) -> str:
    """Return the reason of a cause that names a node; "" where its storage may be one that hosts share."""
    messages = {message.kind for facts in outcome.hosts for message in facts.kernel}
    is_disk = messages & {kernel_log.IO_ERROR, kernel_log.READ_ONLY} and kernel_log.SERVER_SILENT not in messages
    return "" if cause.kind == "storage" and not is_disk else _OF_NODE.get(cause.kind, "")


def _of_rank(outcome: Outcome, cause: FailureCause) -> str:
    """Return the reason of a cause that names a rank; "" where the program or a shared service may be at fault."""
    end = outcome.first_failure
    if end is None or Named(end.host, end.rank) != cause.named:
        return ""
    if cause.text_class in _OF_TEXT or hardware_fault(end):
        return _OF_TEXT.get(cause.text_class, _OF_TEXT["gpu-hardware"])
    return "disk full" if cause.kind == "storage" and _FULL_DISK.search(end.error) else ""


def unhealthy(rows: "Iterable[AttemptRow]", now: float) -> list[UnhealthyNode]:
    """Return the nodes that failed FAILURES times for the same reason in the last WINDOW_S, by name.

    Attempts that ran at the same time are one failure: one reboot ends all of them.
    """
    groups: dict[tuple[str, str, str], list[AttemptRow]] = {}
    for row in sorted(rows, key=lambda row: row.ended):
        if row.fault and now - WINDOW_S < row.ended <= now:
            group = groups.setdefault((row.host, row.address, row.fault), [])
            if not group or row.created >= group[-1].ended:
                group.append(row)
    return [
        UnhealthyNode(*key, tuple(row.ended for row in group), tuple(row.attempt for row in group))
        for key, group in sorted(groups.items())
        if len(group) >= FAILURES
    ]
