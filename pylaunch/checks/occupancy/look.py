"""Asking all hosts at once who uses them: for `gpus`, which only looks, and `clean`, which looks again after."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pylaunch.agent.piped import cleanup
from pylaunch.agent.probe.readers.devices import gpu
from pylaunch.agent.probe.readers.hosts import leftovers, occupants
from pylaunch.agent.probe.registry import ReadingKey
from pylaunch.base.dataclass import dataclass
from pylaunch.checks.occupancy.processes import Occupancy, Occupant, occupancy
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.text import typed_json
from pylaunch.probe import answers
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import Answered, Unreachable, ask, understood_all
from pylaunch.probe.program import asking, probe
from pylaunch.protocol.readings.devices import Card, SmiReading
from pylaunch.protocol.readings.hosts import CleanupReading, LeaseHolder

V = TypeVar("V")

LATEST = 1e11
"""Seconds since the epoch; what comes after cannot be shown as a date."""

LARGEST_INDEX = 1 << 16
MOST_CARDS = 1 << 10


@dataclass(frozen=True)
class Unread:
    """Something that could not be looked at, and why."""

    subject: str
    reason: str


@dataclass(frozen=True)
class HostView:
    """One host's answer."""

    occupancy: Occupancy
    cards: tuple[Card, ...]
    """Devices in the output of nvidia-smi."""

    complaint: str | None
    """The error message of nvidia-smi."""

    leases: Mapping[int, LeaseHolder]
    """Holder of each device that is leased."""

    unread: tuple[Unread, ...]

    @property
    def processes_unread(self) -> str | None:
        """Why the processes of the host could not be read; None if they were."""
        return next((each.reason for each in self.unread if each.subject == occupants.occupants), None)


@dataclass(frozen=True)
class Swept:
    """Changes on a host, and its state afterwards."""

    cleanup: CleanupReading
    after: HostView


def look(cluster: Cluster, port: int) -> tuple[dict[str, HostView], dict[str, Unreachable]]:
    """Return the users of each host of `cluster`, and the hosts that could not be asked. Changes nothing."""
    programs = {host.name: probe(_questions(host, port)) for host in cluster.hosts}
    return understood_all(ask(cluster, programs), cluster, _view)


def sweep(
    cluster: Cluster, port: int, targets: Mapping[str, Sequence[Occupant]], *, dry_run: bool
) -> tuple[dict[str, Swept], dict[str, Unreachable]]:
    """Remove what runs that are over left, end exactly `targets` (by host), and look who uses each host then."""
    programs = {}
    for host in cluster.hosts:
        ends = [(each.pid, each.started) for each in targets.get(host.name, ())]
        questions = _questions(host, port)
        programs[host.name] = asking(
            questions, cleanup.of_dead_runs, host.node_root, ends, dry_run=dry_run, questions=questions
        )
    return understood_all(ask(cluster, programs), cluster, _swept)


def _swept(answer: Answered) -> Swept:
    return Swept(typed_json.converted(answer, CleanupReading), _view(answer))


def _questions(host: Host, port: int) -> dict[str, Any]:
    return {
        **occupants.occupants.ask({"ports": [port]}),
        **gpu.management.ask(None),
        **leftovers.held.ask({"root": host.node_root, "devices": list(host.devices), "ports": [port]}),
    }


def _view(answered: Answered) -> HostView:
    """Raises one of MALFORMED for readings of another shape than their readers return."""
    found = answers.values(answered, (gpu.management, occupants.occupants, leftovers.held))
    unread = tuple(Unread(name, each.reason) for name, each in found.items() if isinstance(each, Unmeasured))
    smi = _measured(found, gpu.management) or _NO_CARDS
    if len(smi["cards"]) > MOST_CARDS or not all(0 <= card["index"] <= LARGEST_INDEX for card in smi["cards"]):
        raise ValueError("more devices than a host can have")
    memory: dict[int, int] = {}
    for card in smi["cards"]:
        for process in card["processes"]:
            if process["pid"] is not None:
                memory[process["pid"]] = memory.get(process["pid"], 0) + (process["memory_mib"] or 0)
    seen = _measured(found, occupants.occupants)
    held = _measured(found, leftovers.held)
    devices = held["devices"] if held is not None else {}
    using = occupancy(seen, memory) if seen is not None else Occupancy()
    began = [each.began for each in (*using.stale, *using.at_work, *using.foreign)]
    if not all(0 <= each < LATEST for each in (*began, *(holder["since"] for holder in devices.values()))):
        raise ValueError("a process began at no time that there is")
    leases = {int(index): holder for index, holder in devices.items()}
    return HostView(using, tuple(smi["cards"]), smi["complaint"], leases, unread)


_NO_CARDS: SmiReading = {"complaint": None, "driver": None, "cuda": None, "cards": []}


def _measured(found: Mapping[str, Any], reader: ReadingKey[V]) -> V | None:
    reading = answers.value(found, reader)
    return None if isinstance(reading, Unmeasured) else reading
