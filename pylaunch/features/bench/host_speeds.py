"""Speeds of network, PCIe and NVLink that hosts report, for the bounds of `pylaunch bench`."""

from collections.abc import Iterable

from pylaunch.agent.probe.readers.devices import gpu as gpu_readers
from pylaunch.agent.probe.readers.devices import infiniband as infiniband_readers
from pylaunch.checks.hosts.network import rank_wires
from pylaunch.checks.survey import Survey
from pylaunch.features.bench.judgement.bounds import HostSpeeds, Wire
from pylaunch.protocol.readings.devices import PortReading

DEVICE_CHECKS = ("infiniband.rate", "gpu.pcie", "gpu.nvlink")
"""Checks that ask for what NCCL uses; bench does not judge them."""


def host_speeds(survey: Survey, *, uses_infiniband: bool) -> dict[str, HostSpeeds]:
    """Return host → speeds that it reports. Without `uses_infiniband`, ranks use the network interface."""
    wires = {host: (Wire(*wire),) for host, wire in rank_wires(survey).items()}
    ports = survey.measured(infiniband_readers.adapters) if uses_infiniband else {}
    cards = survey.measured(gpu_readers.management)
    links = survey.measured(gpu_readers.links)
    found = {}
    for host in survey.cluster.hosts:
        used = set(host.devices)
        smi = cards.get(host.name)
        pcie = tuple(
            (card["pcie_generation_max"], card["pcie_width"])
            for card in (smi["cards"] if smi is not None else ())
            if card["index"] in used and card["pcie_generation_max"] is not None and card["pcie_width"] is not None
        )
        nvlink = [each["rate"] for index, each in (links.get(host.name) or {}).items() if index in map(str, used)]
        rails = tuple(_rails(ports.get(host.name) or ()))
        speeds = HostSpeeds(rails or wires.get(host.name, ()), pcie, min(nvlink) if any(nvlink) else None)
        if speeds != HostSpeeds():
            found[host.name] = speeds
    return found


def _rails(ports: Iterable[PortReading]) -> Iterable[Wire]:
    for port in ports:
        if port["state"] == "ACTIVE" and port["rate_gbps"]:
            yield Wire(f"{port['adapter']} port {port['port']}", int(port["rate_gbps"] * 1000), 0, is_fabric=True)
