"""GPUs of a host: `nvidia-smi`, `nvidia-smi -q` and `nvidia-smi topo -m`. Pure."""

import re
from collections.abc import Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import OF_A_TABLE, Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.model.diagnosis.confidence import Confidence

MUCH_MEMORY = 0.25
"""Share of a GPU's memory in use that leaves too little for another process."""

SMI = LogForm(
    "nvidia-smi",
    ("Driver Version: ",),
    re.compile(
        r"^\| NVIDIA-SMI [\w.]{1,20} {1,20}Driver Version: (?P<driver>[\w.]{1,20})(?: {1,20}CUDA Version:"
        r" (?P<cuda>[\w.!/]{1,20}))?"
    ),
    follows=120,
    most=OF_A_TABLE,
)
QUERY = LogForm(
    "nvidia-smi-q",
    ("GPU 0000",),
    re.compile(r"^GPU (?P<bus>0000[0-9A-F]{0,4}:[0-9A-F]{2}:[0-9A-F]{2}\.\d)$"),
    follows=300,
    most=16,
)
TOPOLOGY = LogForm(
    "nvidia-topo",
    ("CPU Affinity",),
    re.compile(r"^GPU0\s{1,20}(?:GPU1|NIC0|mlx|CPU).{0,800}CPU Affinity"),
    follows=40,
    most=OF_A_TABLE,
)
FORMS = (SMI, QUERY, TOPOLOGY)

_FIRST = re.compile(
    r"^\| {1,6}(?P<index>\d{1,3}) {1,4}(?P<name>\S.{1,40}?) {1,20}(?:On|Off|N/A|ERR!) {1,4}\|"
    r" {0,4}(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]{7})"
    r" {1,4}(?:On|Off|N/A|ERR!) {1,4}\| {1,24}(?P<ecc>\d{1,12}|N/A|Off|ERR!) {1,4}\|"
)
_SECOND = re.compile(
    r"^\| {0,4}(?P<cells>\S{1,6} {1,6}\S{1,6} {1,8}\S{1,6} {1,20}\S.{0,24}?)\| {1,10}(?P<used>\d{1,9})MiB"
    r" {0,3}/ {0,8}(?P<total>\d{1,9})MiB {1,4}"
    r"\| {1,12}(?P<use>\S{1,8}) {1,12}(?P<mode>\S.{0,16}?) {1,4}\|"
)
_PROCESS = re.compile(
    r"^\| {1,6}(?P<gpu>\d{1,3}) {1,10}(?:N/A {1,6}N/A {1,10}|\d{1,5} {1,6}\d{1,5} {1,10})?(?P<pid>\d{1,9})"
    r" {1,12}(?P<type>[CGM+]{1,3}) {1,8}.{0,60}?(?P<held>\d{1,9})MiB {1,3}\|"
)


@dataclass(frozen=True)
class GpuRow:
    """GPU in the table of `nvidia-smi`."""

    index: int
    name: str
    ecc: int
    """Uncorrected errors since the driver was loaded."""

    is_lost: bool
    """The GPU does not answer for one of its values."""

    used: int
    total: int
    """MiB."""

    mode: str
    at: int


@dataclass(frozen=True)
class GpuTable:
    """Table of `nvidia-smi`."""

    driver: str
    cuda: str
    gpus: tuple[GpuRow, ...]
    holders: tuple[int, ...]
    """GPUs on which the table lists a process that computes."""

    excerpt: LogExcerpt


def gpu_tables(excerpts: Excerpts) -> Iterator[GpuTable]:
    """Yield the tables of `nvidia-smi`."""
    for table in excerpts.get(SMI.id, ()):
        gpus: list[GpuRow] = []
        holders: list[int] = []
        first: tuple[int, re.Match[str]] | None = None
        for at, line in enumerate(table.lines[1:], 1):
            if "NVIDIA-SMI" in line:
                break
            if found := _FIRST.match(line):
                first = at, found
            elif first is not None and (found := _SECOND.match(line)):
                gpus.append(_row(*first, found))
                first = None
            elif (found := _PROCESS.match(line)) and "C" in found["type"]:
                holders.append(int(found["gpu"]))
        yield GpuTable(table.groups["driver"], table.groups.get("cuda", ""), tuple(gpus), tuple(holders), table)


def _row(at: int, first: re.Match[str], second: re.Match[str]) -> GpuRow:
    ecc = int(first["ecc"]) if first["ecc"].isdigit() else 0
    is_lost = "ERR!" in first[0] or "ERR!" in second[0]
    return GpuRow(
        int(first["index"]), first["name"], ecc, is_lost, int(second["used"]), int(second["total"]), second["mode"], at
    )


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield errors of GPUs, which are plain, and signs of memory that other processes hold."""
    for table in gpu_tables(excerpts):
        yield from _of_table(table)
    for each in excerpts.get(QUERY.id, ()):
        yield from _of_query(each)
    for each in excerpts.get(TOPOLOGY.id, ()):
        yield from _of_topology(each)


def _of_table(table: GpuTable) -> Iterator[Indication]:
    for gpu in table.gpus:
        if gpu.ecc:
            text = f"GPU {gpu.index} reports {gpu.ecc} uncorrected ECC error{'s' * (gpu.ecc > 1)}"
            yield Indication("gpu-hardware", text, table.excerpt, gpu.at, Confidence.MEDIUM)
        if gpu.is_lost:
            text = f"GPU {gpu.index} does not answer: nvidia-smi shows ERR!"
            yield Indication("gpu-hardware", text, table.excerpt, gpu.at, Confidence.MEDIUM)
        if gpu.mode == "Prohibited":
            text = f"the compute mode of GPU {gpu.index} is Prohibited: no process may use it"
            yield Indication("gpu-busy", text, table.excerpt, gpu.at, Confidence.MEDIUM)
        elif gpu.mode.startswith("E."):
            text = f"the compute mode of GPU {gpu.index} is exclusive"
            yield Indication("gpu-busy", text, table.excerpt, gpu.at)
        if gpu.total and gpu.used > MUCH_MEMORY * gpu.total:
            who = "a process of the table" if gpu.index in table.holders else "no process that the table shows"
            text = f"{gpu.used} of {gpu.total} MiB of GPU {gpu.index} are in use, by {who}"
            yield Indication("gpu-memory-foreign", text, table.excerpt, gpu.at)


_COUNTER = re.compile(r"^\s{1,40}(?:SRAM |DRAM )?Uncorrectable(?: Parity| SEC-DED)?\s{1,40}: (?P<count>\d{1,12})$")
_FIELD = re.compile(r"^\s{1,40}(?P<name>[A-Z][\w ]{1,40}?)\s{1,40}: (?P<value>\S.{0,60})$")
_HEADING = re.compile(r"^\s{1,40}(?P<name>[A-Z][\w ]{1,40})$")


def _of_query(table: LogExcerpt) -> Iterator[Indication]:
    """Yield what the sections about ECC, row remapping and the fabric of one GPU report."""
    bus, section = table.groups["bus"], ""
    for at, line in enumerate(table.lines[1:], 1):
        if line[:1].strip():
            return
        if found := _HEADING.match(line):
            section = found["name"].strip()
        elif (counter := _COUNTER.match(line)) and int(counter["count"]) and section != "Aggregate":
            text = f"GPU {bus} has {counter['count']} uncorrectable memory errors"
            yield Indication("gpu-hardware", text, table, at, Confidence.MEDIUM)
        elif (found := _FIELD.match(line)) and (
            report := _REPORTS.get((section, found["name"].strip(), found["value"]))
        ):
            cause, clause, sure = report
            yield Indication(cause, f"GPU {bus}: {clause}", table, at, sure)


_REMAPPED, _RETIRED, _FABRIC = "Remapped Rows", "Retired Pages", "Fabric"
_REPORTS = {
    (_REMAPPED, "Remapping Failure Occurred", "Yes"):
        ("gpu-hardware", "a memory row could not be remapped", Confidence.HIGH),
    (_REMAPPED, "Pending", "Yes"): ("gpu-hardware", "a memory row is remapped at the next reset", Confidence.MEDIUM),
    (_RETIRED, "Pending Page Blacklist", "Yes"):
        ("gpu-hardware", "a memory page is retired at the next reset", Confidence.MEDIUM),
    (_FABRIC, "State", "In Progress"):
        ("fabric-manager", "the registration at the NVLink fabric is not complete", Confidence.MEDIUM),
    (_FABRIC, "State", "Not Started"):
        ("fabric-manager", "the registration at the NVLink fabric has not begun", Confidence.MEDIUM),
}  # fmt: skip


def _of_topology(table: LogExcerpt) -> Iterator[Indication]:
    """Yield GPUs without NVLink among GPUs that have it, and pairs whose only path crosses the CPU sockets."""
    names = table.lines[0].split("CPU Affinity")[0].split()
    gpus = [name for name in names if name.startswith("GPU")]
    links: dict[str, list[str]] = {}
    for line in table.lines[1:]:
        cells = line.split()
        if not cells or cells[0] not in names:
            break
        if cells[0] in gpus and len(cells) > len(gpus):
            links[cells[0]] = cells[1 : 1 + len(gpus)]
    with_nvlink = [gpu for gpu in links if any(cell.startswith("NV") for cell in links[gpu])]
    without = [gpu for gpu in links if gpu not in with_nvlink]
    if without and len(with_nvlink) > len(without):
        text = f"{', '.join(without)} have no NVLink, while {len(with_nvlink)} other GPUs do"
        yield Indication("gpu-hardware", text, table, list(links).index(without[0]) + 1, Confidence.LOW)
    far = [
        (gpu, gpus[at])
        for gpu, cells in links.items()
        for at, cell in enumerate(cells)
        if cell in ("SYS", "NODE", "PHB")
    ]
    if far and not with_nvlink:
        text = f"{far[0][0]} and {far[0][1]} have no direct path: {links[far[0][0]][gpus.index(far[0][1])]}"
        yield Indication("acs-iommu", text, table, 0)
