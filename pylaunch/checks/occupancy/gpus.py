"""List the devices of every host, with their leases and the processes that hold them without a lease."""

from collections.abc import Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.occupancy.devices import DeviceView, devices
from pylaunch.checks.occupancy.look import HostView, look
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import USUAL_PORT
from pylaunch.probe.ask import Unreachable


@dataclass(frozen=True)
class DeviceReport:
    """Devices of all hosts that answered."""

    views: Mapping[str, HostView]
    devices: tuple[DeviceView, ...]
    unreachable: Mapping[str, Unreachable]

    @property
    def without_devices(self) -> tuple[str, ...]:
        """Hosts that have no device; not those whose nvidia-smi did not answer."""
        views = self.views.items()
        return tuple(name for name, view in views if view.complaint is None and not self.devices_of(name))

    def devices_of(self, host: str) -> tuple[DeviceView, ...]:
        """Return the devices of one host."""
        return tuple(each for each in self.devices if each.host == host)


def list_devices(cluster: Cluster) -> DeviceReport:
    """Ask every host of `cluster` for its devices. Changes nothing."""
    views, unreachable = look(cluster, USUAL_PORT)
    found = tuple(each for host in cluster.hosts if host.name in views for each in devices(host, views[host.name]))
    return DeviceReport(views, found, unreachable)
