"""PCI devices: `lspci`, with the links and the access control of `lspci -vv`. Pure.

Forms: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html (ACSCtl),
https://github.com/geerlingguy/raspberry-pi-pcie-devices/issues/480 (LnkSta).
"""

import re
from collections.abc import Iterator

from pylaunch.features.explain.judgement.indications.form import Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence

LSPCI = LogForm(
    "lspci",
    ("3D controller", "VGA compatible controller", "Infiniband controller", "Processing accelerators", "PCI bridge"),
    re.compile(
        r"^(?P<bus>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) (?P<kind>3D|VGA compatible|Infiniband|Processing|PCI)"
        r" (?:controller|accelerators|bridge)(?: \[\w{4}\])?: (?P<name>\S.{1,200}?)"
        r"(?: \(rev (?P<revision>[0-9a-f]{2})\))?(?: \(prog-if .{1,60}\))?$"
    ),
    follows=80,
)
FORMS = (LSPCI,)

_NO_DEVICE = "ff"
"""Revision of a device that does not answer: all bits of its registers are read as 1."""

_GPU = re.compile(r"\bNVIDIA\b|\bAMD\b|Advanced Micro Devices")
_WIDTH = re.compile(r"\bLnk(?P<what>Cap|Sta):\s{1,8}(?:Port #\d{1,4}, )?Speed [^,]{1,40}, Width x(?P<width>\d{1,2})\b")
_ACCESS = re.compile(r"\bACSCtl:\s{1,8}.{0,40}\bReqRedir(?P<redirects>[+-])")


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield devices that do not answer, and links and bridges that make transfers between GPUs slow.

    A lower speed is no sign: an idle GPU lowers it to save power.
    """
    bridges = []
    for device in excerpts.get(LSPCI.id, ()):
        kind = device.groups["kind"]
        if kind == "PCI":
            bridges += _redirecting(device)
        elif kind == "Infiniband" or _GPU.search(device.groups["name"]):
            yield from _of_device(device, is_gpu=kind != "Infiniband")
    if bridges:
        text = f"ACS sends traffic between GPUs over the CPU at the bridge {bridges[0][0].groups['bus']}"
        yield Indication("acs-iommu", text, *bridges[0])


def _of_device(device: LogExcerpt, *, is_gpu: bool) -> Iterator[Indication]:
    cause, what = ("gpu-hardware", "GPU") if is_gpu else ("ib-hardware", "adapter")
    bus = device.groups["bus"]
    if device.groups.get("revision") == _NO_DEVICE:
        because = "lspci reads all bits of its registers as 1"
        text = f"the {what} {bus} does not answer on the PCI bus"
        yield Indication(cause, text, device, 0, Confidence.MEDIUM, because=because)
        return
    lanes: dict[str, tuple[int, int]] = {}
    for at, line in _own_lines(device):
        if found := _WIDTH.search(line):
            lanes.setdefault(found["what"], (int(found["width"]), at))
    can, uses = lanes.get("Cap"), lanes.get("Sta")
    if can is not None and uses is not None and 0 < uses[0] < can[0]:
        yield Indication(cause, f"the {what} {bus} uses {uses[0]} of its {can[0]} PCIe lanes", device, uses[1])


def _redirecting(bridge: LogExcerpt) -> list[tuple[LogExcerpt, int]]:
    """Return the line that shows that a bridge redirects traffic between devices; [] for none."""
    found = ((at, _ACCESS.search(line)) for at, line in _own_lines(bridge))
    return [(bridge, at) for at, matched in found if matched is not None and matched["redirects"] == "+"][:1]


def _own_lines(device: LogExcerpt) -> Iterator[tuple[int, str]]:
    """Yield the lines below the first one that belong to the device: they are indented."""
    for at, line in enumerate(device.lines[1:], 1):
        if not line[:1].isspace():
            return
        yield at, line
