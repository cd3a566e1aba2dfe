"""The devices of all hosts, with the run that leases each one and the processes that hold it without a lease."""

from collections.abc import Iterator, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.occupancy.look import HostView, Occupant, look
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import USUAL_PORT
from pylaunch.probe.ask import Unreachable
from pylaunch.protocol.readings.devices import Card
from pylaunch.protocol.readings.hosts import LeaseHolder


@dataclass(frozen=True)
class DeviceView:
    """One device of one host."""

    host: str
    index: int
    card: Card | None
    """None for a device that only the inventory names."""

    lease: LeaseHolder | None
    unleased: tuple[Occupant, ...]
    """Processes that hold it and are not of the run that leases it."""


def devices(host: Host, view: HostView) -> Iterator[DeviceView]:
    """Every device in the inventory or in the output of nvidia-smi, in order of index."""
    cards = {card["index"]: card for card in view.cards}
    for index in sorted({*host.devices, *cards}):
        card, lease = cards.get(index), view.leases.get(index)
        yield DeviceView(host.name, index, card, lease, tuple(_unleased(view, index, card, lease)))


def _unleased(view: HostView, index: int, card: Card | None, lease: LeaseHolder | None) -> Iterator[Occupant]:
    """Processes that hold the device file or memory of it without the lease. Index and device file may differ."""
    minor = card["minor"] if card is not None else None
    path = f"/dev/nvidia{index if minor is None else minor}"
    on_card = {process["pid"]: process for process in (card["processes"] if card is not None else ())}
    seen = view.occupancy
    listed = set()
    for occupant in (*seen.stale, *seen.at_work, *seen.foreign):
        listed.add(occupant.pid)
        holds = path in occupant.devices or occupant.pid in on_card
        if holds and (lease is None or occupant.run != lease["run"]):
            yield occupant
    for pid, process in on_card.items():
        if pid not in listed:
            name = process["name"] or "a process that cannot be seen"
            memory, inside = process["memory_mib"], process.get("container", "")
            yield Occupant(pid or 0, 0, 0.0, "another user", name, "", (), (), False, None, memory, inside)


@dataclass(frozen=True)
class DeviceReport:
    """Devices of all hosts that answered."""

    views: Mapping[str, HostView]
    devices: Mapping[str, tuple[DeviceView, ...]]
    """Devices by host."""

    unreachable: Mapping[str, Unreachable]

    @property
    def without_devices(self) -> tuple[str, ...]:
        """Hosts that have no device; not those whose nvidia-smi did not answer."""
        return tuple(name for name, view in self.views.items() if view.complaint is None and not self.devices[name])


def list_devices(cluster: Cluster) -> DeviceReport:
    """Ask every host of `cluster` for its devices. Changes nothing."""
    views, unreachable = look(cluster, USUAL_PORT)
    return DeviceReport(views, {name: tuple(devices(cluster[name], view)) for name, view in views.items()}, unreachable)
