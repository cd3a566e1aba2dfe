"""Readings of texts about GPUs and network adapters. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.causes.xid import XIDS, XidKind
from pylaunch.verdict.logs.address import kind_of_address
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue
from pylaunch.verdict.logs.scan import LogMatch
from pylaunch.verdict.logs.signature import Role

LOW, MEDIUM, HIGH = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH


def no_answer(match: LogMatch, facts: LogFacts) -> Clue:
    gids = re.findall(r"(?:local|remote)Gid[s]? ?([0-9a-fA-F:.]{2,60})", match.text, re.IGNORECASE)
    if any(kind_of_address(gid) == "link-local" for gid in gids):
        return Clue("rdma-gid", "RDMA got no answer, and the GIDs are link-local", HIGH)
    if facts.made_progress:
        return Clue("ib-hardware", "RDMA got no answer after the run had made progress: a link, or a peer that died",
                       LOW, because="the run worked before")  # fmt: skip
    return Clue("rdma-gid", "RDMA got no answer before the first step: the adapters cannot talk", MEDIUM,
                   because="no step was printed before the error", also=("rail-topology", "acs-iommu"))  # fmt: skip


def modify_qp(match: LogMatch, facts: LogFacts) -> Clue:
    why, errno = match.groups.get("why", ""), match.groups.get("errno", "")
    if why == "Connection timed out" or errno == "110":
        return Clue("rail-topology", "the remote GID does not answer: adapters of different rails or VLANs",
                       MEDIUM, because="errno 110: no neighbour at that address", also=("rdma-gid",))  # fmt: skip
    if why == "Network is unreachable" or errno == "101":
        return Clue("rdma-gid", "there is no route for the remote GID", MEDIUM)
    return Clue("rdma-gid", f"the GID index or the port does not fit: {why or errno or 'see the line'}", MEDIUM)


def register_memory(match: LogMatch, facts: LogFacts) -> Clue:
    why = match.groups.get("why", "")
    if "Bad address" in why or "dmabuf" in match.groups["call"]:
        return Clue("rdma-devices", "GPU memory cannot be registered: the peer-memory module is missing", MEDIUM)
    if "denied" in why or "not permitted" in why:
        return Clue("rdma-devices", "the process may not use the RDMA device", MEDIUM)
    if "Cannot allocate memory" in why:
        return Clue("memlock", "RDMA could not lock memory", HIGH)
    return Clue("memlock", "RDMA could not lock memory", MEDIUM, also=("rdma-devices",))


def adapter_event(match: LogMatch, facts: LogFacts) -> Clue:
    event = match.groups["event"].strip()
    if "GID" in event or "gid" in event:
        return Clue("rdma-gid", f"the adapter's GIDs changed: {event}", MEDIUM)
    if "access" in event or "QP" in event or "request" in event:
        return Clue("rdma-mtu", f"the adapter reports {event}", MEDIUM, also=("acs-iommu",))
    return Clue("ib-hardware", f"{match.groups['dev']} reports {event}", MEDIUM)


def cuda_of_nccl(match: LogMatch, facts: LogFacts) -> Clue:
    why = match.groups["why"]
    if "nvls.cc" in match.text:
        return Clue("fabric-manager", f"NVSwitch multicast failed: {why}", MEDIUM)
    for part, cause in _CUDA:
        if part in why:
            also = ("gpu-memory",) if part == "out of memory" else ()
            return Clue(cause, f"CUDA failed in NCCL: {why}", MEDIUM, also=also)
    return Clue("nccl-unexplained", f"CUDA failed in NCCL: {why}", LOW)


_CUDA = (
    ("out of memory", "gpu-memory-foreign"),
    ("driver version is insufficient", "driver-old"),
    ("stub library", "library-mismatch"),
    ("peer access", "no-transport"),
    ("not supported", "driver-old"),
    ("invalid device ordinal", "app-device-mapping"),
    ("illegal memory access", "gpu-unexplained"),
    ("unspecified launch failure", "gpu-unexplained"),
    ("not yet initialized", "fabric-manager"),
    ("ECC", "gpu-hardware"),
    ("busy or unavailable", "gpu-busy"),
    ("peer mapping", "acs-iommu"),
)


def xid(match: LogMatch, facts: LogFacts) -> Clue:
    code = int(match.groups["code"])
    known = XIDS.get(code)
    name = known.name if known else "an error that is not in pylaunch's table"
    text = f"the GPU {match.groups['bus']} reported Xid {code}: {name}"
    if code in (13, 31, 69):
        return Clue("gpu-program-fault", text, MEDIUM)
    if code in (109, 119, 120, 62):
        return Clue("gpu-driver-hang", text, HIGH)
    if known is not None and known.kind is XidKind.PROGRAM:
        return Clue("gpu-hardware", text, LOW, role=Role.BENIGN)
    if known is not None and known.kind is XidKind.SUSPECT:
        return Clue("gpu-hardware", text, LOW, role=Role.WARNING)
    return Clue("gpu-hardware", text, HIGH)


def switch(match: LogMatch, facts: LogFacts) -> Clue:
    role = Role.BENIGN if match.groups.get("kind") == "Non-fatal" else None
    return Clue("gpu-hardware", f"an NVSwitch reported SXid {match.groups['code']}", MEDIUM, role=role)
