"""State of all hosts at one moment, and the requirements of a run: the input of the checks."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

from pylaunch.agent.probe.registry import ReadingKey
from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.host_errors import OwnNames, Template, of_hosts
from pylaunch.model.job import Framework
from pylaunch.model.plan import RunPlan
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import Unreachable

REACH = "reach.host"
"""Check id of hosts that could not be asked at all."""


V = TypeVar("V")


@dataclass(frozen=True)
class Wanted:
    """Requirements of a run; empty ones are not checked."""

    workdir: str = ""
    command: tuple[str, ...] = ()
    script: str = ""
    """The Python script of every rank; a relative path starts at `workdir`."""

    port: int | None = None
    """Rendezvous port on the first host; None skips it: at a start, the agent takes the port itself."""

    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Accelerators of the run, by host; hosts without an entry compute on their CPU."""

    pythons: Mapping[str, str] = field(default_factory=dict)
    """Interpreter of the ranks, by host."""

    files: tuple[str, ...] = ()
    """Configuration files that must be the same everywhere; relative paths start at `workdir`."""

    checkpoint_dir: str = ""
    temporary_dir: str = ""
    """TMPDIR of the ranks; "" is that of the host."""

    container: str = ""
    """Image of the ranks; "" is none."""

    infiniband: bool = False
    """A working InfiniBand or RoCE device is required on every host."""

    connected: bool = True
    """Ranks connect to each other; False for independent programs (--framework command)."""

    any_port: bool = False
    """A start takes another port if this one is in use."""

    peers: Mapping[str, str] = field(default_factory=dict)
    """Rank address of every host of the cluster, by host; set when the survey is taken."""


@dataclass(frozen=True)
class Look:
    """Readings of one host."""

    readings: Mapping[str, Any]
    """Reader → its result (JSON), None where the host has no such thing, or Unmeasured."""

    seconds: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def is_complete(self) -> bool:
        """Every reader could look."""
        return not any(isinstance(reading, Unmeasured) for reading in self.readings.values())


@dataclass(frozen=True)
class Survey:
    """All hosts."""

    cluster: Cluster
    wanted: Wanted
    looks: Mapping[str, Look]
    unreachable: Mapping[str, Unreachable] = field(default_factory=dict)

    @cached_property
    def _measured(self) -> dict[str, Mapping[str, Any]]:
        return {}

    def measured(self, reader: ReadingKey[V]) -> Mapping[str, V]:
        """Return the values of `reader` by host in rank order, without hosts that it could not read or did not ask.

        They are collected once: checks of pairs of hosts ask for each pair.
        """
        if reader not in self._measured:
            self._measured[reader] = {
                name: self.looks[name].readings[reader]
                for name in self.cluster.names
                if name in self.looks
                and reader in self.looks[name].readings
                and not isinstance(self.looks[name].readings[reader], Unmeasured)
            }
        return self._measured[reader]

    def labelled(self, reader: ReadingKey[V]) -> dict[str, dict[str, V]]:
        """Return the values of `reader` by host in rank order and by label ("reader#label")."""
        found: dict[str, dict[str, V]] = {}
        for name in self.cluster.names:
            look = self.looks.get(name)
            for asked, reading in look.readings.items() if look is not None else ():
                asked_reader, _, label = asked.partition("#")
                if asked_reader == reader and not isinstance(reading, Unmeasured):
                    found.setdefault(name, {})[label] = reading
        return found


def not_reached(cluster: Cluster, unreachable: Mapping[str, Unreachable]) -> list[Finding]:
    """Return a finding for each error of hosts of `cluster` that could not be asked, in the order of occurrence.

    Its text holds for all of its hosts, their names and addresses folded.
    """
    own = OwnNames(cluster.hosts)
    together: dict[Template, list[str]] = {}
    for host, why in unreachable.items():
        together.setdefault(own.template(host, why.reason), []).append(host)
    return [
        Finding(
            REACH,
            Severity.FAIL,
            tuple(hosts),
            own.filled(template, hosts),
            "; ".join(of_hosts({host: unreachable[host].hint for host in hosts})),
        )
        for template, hosts in together.items()
    ]


def wanted_by(plan: RunPlan) -> Wanted:
    """Return the needs of a run that are known before its first rank exists."""
    job = plan.job
    scripted = job.framework is not Framework.COMMAND
    # What travels with the run is proven by its hash, and what an image has is examined by agents.
    is_there = job.sync is None and job.container is None
    pythons = {node.host.name: job.python or node.host.rank_python for node in plan.nodes}
    return Wanted(
        workdir=job.workdir if is_there else "",
        command=job.command if is_there else (),
        script=(job.script or "") if scripted and is_there else "",
        devices={node.host.name: node.devices for node in plan.nodes if node.devices},
        pythons=pythons if scripted and job.container is None else {},
        temporary_dir=job.env.get("TMPDIR", ""),
        container="" if job.container is None else job.container.image,
        connected=scripted,
    )
