"""Clean hosts: remove leftovers of runs that are over, end processes that nobody runs any more, and prove it.

    report = clean_hosts(cluster, port, dry_run=False)    removes files and leases; never ends a process
    report = end_stale(report)                            ends the processes in report.stale
    proven = prove_runs(cluster)                          of `runs.prove`: records which runs are clean now

Processes of live runs, of live launchers and terminals, and of other users are never touched.
"""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.checks.occupancy.look import Occupant, Swept, sweep
from pylaunch.model.cluster import Cluster
from pylaunch.probe.ask import Unreachable


@dataclass(frozen=True)
class CleanReport:
    """Leftovers found on every host, and those that remain."""

    cluster: Cluster
    port: int
    dry_run: bool
    swept: Mapping[str, Swept]
    """Leftovers of runs that are over, by host."""

    unreachable: Mapping[str, Unreachable]
    ended: Mapping[str, Swept] = field(default_factory=dict)
    """Hosts on which processes were ended."""

    @property
    def stale(self) -> dict[str, tuple[Occupant, ...]]:
        """Processes of this user that nobody runs any more, by host, as they were found."""
        return {name: each.after.occupancy.stale for name, each in self.swept.items() if each.after.occupancy.stale}

    @property
    def latest(self) -> dict[str, Swept]:
        """The last answer of every host."""
        return {**self.swept, **self.ended}

    @property
    def not_clean(self) -> frozenset[str]:
        """Hosts on which something of this user is left, or whose processes could not be read."""
        return frozenset(
            name
            for name, each in self.latest.items()
            if each.cleanup["left"]
            or each.cleanup["survives"]
            or each.after.occupancy.stale
            or each.after.processes_unread is not None
        )

    @property
    def clean(self) -> tuple[str, ...]:
        """Hosts on which nothing is left; with `dry_run`, those on which there is nothing to do."""
        return tuple(
            name
            for name, each in self.latest.items()
            if name not in self.not_clean and not (self.dry_run and each.cleanup["removed"])
        )

    @property
    def is_clean(self) -> bool:
        """Every host answered, and nothing is left there. A dry run only needs the answers."""
        return not self.unreachable and (self.dry_run or not self.not_clean)


def clean_hosts(cluster: Cluster, port: int, *, dry_run: bool) -> CleanReport:
    """Remove leftovers of runs that are over, and look for processes that use devices or `port`."""
    swept, unreachable = sweep(cluster, port, {}, dry_run=dry_run)
    return CleanReport(cluster, port, dry_run, swept, unreachable)


def end_stale(report: CleanReport) -> CleanReport:
    """End the processes in `report.stale`. A process that another program started since is not touched."""
    stale = report.stale
    ended, lost = sweep(report.cluster.only(stale), report.port, stale, dry_run=False)
    return replace(report, ended=ended, unreachable={**report.unreachable, **lost})
