"""Ranks for a report: by host, with their last lines. Pure."""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.features.report.timeline import bar_of
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.outcome import Named
from pylaunch.model.plan import NodePlan
from pylaunch.model.run import RunRecord
from pylaunch.model.text.excerpt import TextTail
from pylaunch.protocol.node_evidence import RankEnd

ALL_LOGS = 1_000_000
"""Characters of the last lines of all ranks together."""

ONE_LOG = 20_000
LEAST_LOG = 1000
LONGEST_LINE = 2000


@dataclass(frozen=True)
class RankLines:
    """One rank: its end and its last lines."""

    rank: int
    kind: str
    end: str
    step: int | None
    lines: tuple[str, ...]
    is_named: bool


@dataclass(frozen=True)
class HostRanks:
    """Ranks of one host."""

    host: str
    ranks: tuple[RankLines, ...]
    summary: str

    @property
    def is_named(self) -> bool:
        """True if one of the ranks is named as the cause."""
        return any(rank.is_named for rank in self.ranks)

    @property
    def has_lines(self) -> bool:
        """True if there is more to show than the summary."""
        return any(rank.lines or rank.is_named for rank in self.ranks)


def by_host(record: RunRecord, hide: Callable[[str], str]) -> tuple[HostRanks, ...]:
    """Return the ranks of every host, in rank order; `hide` masks secrets in their lines before these are cut."""
    outcome, plan = record.outcome, record.plan
    ends = {} if outcome is None else {end.rank: end for end in outcome.ends if end.rank is not None}
    named = outcome.named if outcome is not None else None
    limit = max(LEAST_LOG, min(ONE_LOG, ALL_LOGS // max(1, plan.world_size)))
    return tuple(
        _host_ranks(
            node,
            tuple(
                RankLines(
                    rank.rank,
                    *bar_of(end),
                    None if end is None else end.step,
                    last_lines(end, limit, hide),
                    named == Named(node.host.name, rank.rank),
                )
                for rank in node.ranks
                for end in (ends.get(rank.rank),)
            ),
        )
        for node in plan.nodes
    )


def _host_ranks(node: NodePlan, ranks: tuple[RankLines, ...]) -> HostRanks:
    kinds: dict[str, list[int]] = {}
    for rank in ranks:
        words = {"run": "done", "victim": "failed with others", "unknown": "no end recorded"}.get(rank.kind, rank.kind)
        kinds.setdefault(words, []).append(rank.rank)
    states = (
        f"{'rank' if len(numbers) == 1 else 'ranks'} {fold_ranks(numbers)} {words}" for words, numbers in kinds.items()
    )
    return HostRanks(node.host.name, ranks, "; ".join(states))


def last_lines(end: RankEnd | None, limit: int, hide: Callable[[str], str]) -> tuple[str, ...]:
    """Return the last lines of a rank, masked and then cut: none too long, and within `limit` characters."""
    lines = () if end is None else hide("\n".join(end.last_lines)).split("\n")
    tail = TextTail(limit)
    tail.add("\n".join(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in lines))
    return tuple(line for line in tail.text.split("\n") if line.strip())
