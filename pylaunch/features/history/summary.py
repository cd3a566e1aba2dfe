"""Summarize attempts: by run, and by node to which failures belong. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.history.faults import fault_of
from pylaunch.model.outcome import Status
from pylaunch.model.plan import base_of
from pylaunch.model.run import EventKind, RunRecord
from pylaunch.model.text.sanitise import visible_line

LONGEST = 500
UNKNOWN = "unknown"


@dataclass(frozen=True)
class AttemptRow:
    """One attempt that has ended. Times are seconds since the epoch."""

    attempt: str
    created: float
    ended: float
    status: str
    ranks: int
    nodes: int
    start_s: float | None
    """From the connection to the release; None without a release."""

    ran_s: float | None
    """From the release to the end of the last rank."""

    kind: str
    """Kind of the first cause of a failure; "" for others."""

    host: str
    """Node to which the failure belongs, or ""."""

    reason: str
    address: str = ""
    """Address of `host` in the inventory."""

    fault: str = ""
    """Reason that lies in the node itself (`faults.fault_of`), or ""."""


@dataclass(frozen=True)
class RunSummary:
    """All attempts of a run."""

    run: str
    attempts: int
    status: str
    created: float
    seconds: float
    """From its first attempt to its last end."""

    start_s: float | None
    """Of its first release."""

    ran_s: float
    """Time in which ranks ran, of all attempts."""

    @property
    def lost_s(self) -> float:
        """Time in which no rank ran: starts, refusals, and what lies between attempts."""
        return max(0.0, self.seconds - self.ran_s)

    @property
    def goodput(self) -> float:
        """Share of the time in which ranks ran."""
        return min(1.0, self.ran_s / self.seconds) if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class NodeSummary:
    """Failures that belong to a node."""

    host: str
    failures: int
    last: float
    kinds: Sequence[tuple[str, int]]
    """Kinds of causes with their numbers, the most frequent first."""


def row_of(record: RunRecord) -> AttemptRow | None:
    """Return the row of an attempt; None for one that has no outcome."""
    outcome = record.outcome
    if outcome is None:
        return None
    released = [event.seconds for event in record.events if event.kind is EventKind.RELEASED]
    start_s = None
    if released and released[-1]:
        start_s = sum(seconds for name, seconds in released[-1].items() if name != "skew")
    has_failed = outcome.status is Status.FAILED
    # The error of a rank belongs to the program, whichever rank had it first, unless its text is about the machine.
    is_of_node = has_failed and outcome.named is not None and outcome.named.rank is None
    named, fault = fault_of(outcome) or (outcome.named.host if is_of_node and outcome.named else "", "")
    address = next((host.address for host in record.plan.cluster.hosts if host.name == named), "")
    kind = outcome.causes[0].kind if outcome.causes else UNKNOWN
    return AttemptRow(
        record.plan.run, record.created_at, outcome.ended_at, outcome.status.value, record.plan.world_size,
        len(record.plan.nodes), start_s, record.ran_s(outcome), kind if has_failed else "", visible_line(named),
        visible_line(outcome.reason)[:LONGEST], address, fault,
    )  # fmt: skip


def of_recent_runs(rows: Sequence[AttemptRow], since: float) -> list[AttemptRow]:
    """Return all attempts of the runs of which one began at `since` or later."""
    recent = {base_of(row.attempt) for row in rows if row.created >= since}
    return [row for row in rows if base_of(row.attempt) in recent]


def by_run(rows: Iterable[AttemptRow]) -> list[RunSummary]:
    """Return the runs of `rows`, the newest first."""
    groups: dict[str, list[AttemptRow]] = {}
    for row in sorted(rows, key=lambda row: row.created):
        groups.setdefault(base_of(row.attempt), []).append(row)
    found = []
    for run, attempts in groups.items():
        starts = [row.start_s for row in attempts if row.start_s is not None]
        found.append(
            RunSummary(
                run,
                len(attempts),
                attempts[-1].status,
                attempts[0].created,
                max(0.0, max(row.ended for row in attempts) - attempts[0].created),
                starts[0] if starts else None,
                sum(row.ran_s or 0.0 for row in attempts),
            )
        )
    return sorted(found, key=lambda each: each.created, reverse=True)


def by_node(rows: Iterable[AttemptRow]) -> list[NodeSummary]:
    """Return the nodes to which failures belong, the most frequent first."""
    groups: dict[str, list[AttemptRow]] = {}
    for row in rows:
        if row.host:
            groups.setdefault(row.host, []).append(row)
    found = [
        NodeSummary(host, len(each), max(row.ended for row in each), Counter(row.kind for row in each).most_common())
        for host, each in groups.items()
    ]
    return sorted(found, key=lambda each: (-each.failures, each.host))
