"""Which nodes somebody who watches a run hears, and when there is nothing more to watch. Pure; times are monotonic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class NodeView:
    """The nodes of a run, as one watcher sees them. Those that are in none of the sets have not answered yet."""

    hosts: frozenset[str]
    heard: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()
    """Said that the run is over there."""

    unknown: frozenset[str] = frozenset()
    """Answer, and have nothing of the run: not yet, or no longer."""

    missed: Mapping[str, float] = field(default_factory=dict)
    """Cannot be reached, with since when."""

    @property
    def has_any_answer(self) -> bool:
        """Something is known: of one node at least, even if only that it cannot be reached."""
        return bool(self.heard or self.over or self.unknown or self.missed)

    def with_heard(self, host: str) -> NodeView:
        """A connection to `host` is there."""
        return replace(self._without(host), heard=self.heard | {host})

    def with_over(self, host: str) -> NodeView:
        """The run is over on `host`."""
        return replace(self._without(host), over=self.over | {host})

    def with_unknown(self, host: str) -> NodeView:
        """`host` knows nothing of the run."""
        return replace(self._without(host), unknown=self.unknown | {host})

    def with_missed(self, host: str, now: float) -> NodeView:
        """`host` cannot be reached; what counts is since when."""
        since = self.missed.get(host, now)
        return replace(self._without(host), missed={**self.missed, host: since})

    def is_over(self, now: float, patience_s: float) -> bool:
        """Nothing more is to be seen: every node that answers is done, and the others have been silent for long.

        Where no node answers, nobody knows.
        """
        done = self.over | self.unknown
        if not done or done | self.missed.keys() != self.hosts:
            return False
        return all(now - since >= patience_s for since in self.missed.values())

    def _without(self, host: str) -> NodeView:
        return replace(
            self,
            heard=self.heard - {host},
            over=self.over - {host},
            unknown=self.unknown - {host},
            missed={name: since for name, since in self.missed.items() if name != host},
        )
