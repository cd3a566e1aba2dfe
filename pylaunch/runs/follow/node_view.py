"""Nodes of a run as a watcher sees them, and when the run is over for it. Pure; times are monotonic."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field, replace


@dataclass(frozen=True)
class NodeView:
    """State of each node, as one watcher sees it. A node in none of the sets has not answered yet."""

    hosts: frozenset[str]
    heard: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()
    """Nodes that report that the run is over."""

    unknown: frozenset[str] = frozenset()
    """Nodes that answer and do not know the run: not yet, or no longer."""

    missed: Mapping[str, float] = field(default_factory=dict)
    """Nodes that cannot be reached, with the time since when."""

    @property
    def has_any_answer(self) -> bool:
        """At least one node answered, or is known to be out of reach."""
        return bool(self.heard or self.over or self.unknown or self.missed)

    def with_heard(self, host: str) -> "NodeView":
        """Return the view with a connection to `host`."""
        return replace(self._without(host), heard=self.heard | {host})

    def with_over(self, host: str) -> "NodeView":
        """Return the view with the run over on `host`."""
        return replace(self._without(host), over=self.over | {host})

    def with_unknown(self, host: str) -> "NodeView":
        """Return the view with `host` not knowing the run."""
        return replace(self._without(host), unknown=self.unknown | {host})

    def with_missed(self, host: str, now: float) -> "NodeView":
        """Return the view with `host` out of reach; the time of the first miss is kept."""
        since = self.missed.get(host, now)
        return replace(self._without(host), missed={**self.missed, host: since})

    def is_over(self, now: float, patience_s: float) -> bool:
        """Return True when every node that answers is done and the others were silent for `patience_s`.

        At least one node must answer.
        """
        done = self.over | self.unknown
        if not done or done | self.missed.keys() != self.hosts:
            return False
        return all(now - since >= patience_s for since in self.missed.values())

    def _without(self, host: str) -> "NodeView":
        return replace(
            self,
            heard=self.heard - {host},
            over=self.over - {host},
            unknown=self.unknown - {host},
            missed={name: since for name, since in self.missed.items() if name != host},
        )
