"""Results of nccl-tests and p2pBandwidthLatencyTest: wrong values, and a bandwidth far below that of the links. Pure.

Half of the peak of one adapter is expected of the largest messages at least: NCCL reaches about 12 GB/s for 100 Gb/s
(https://github.com/NVIDIA/nccl-tests/issues/119).
"""

import re
from collections.abc import Iterable, Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.indications.form import OF_A_TABLE, Excerpts, LogExcerpt, LogForm
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.features.explain.judgement.tables.links import link_ports
from pylaunch.model.diagnosis.confidence import Confidence

LARGE = 32 << 20
"""Bytes of a message from which the bandwidth of a link, and not its latency, decides."""

FAR_BELOW = 0.35
"""Share of the rate of one adapter below which the adapters are not used, or not as they should."""

RESULTS = LogForm(
    "nccl-tests-results",
    ("busbw",),
    re.compile(r"^#? {0,10}size {1,20}count .{0,100}busbw"),
    follows=60,
    most=OF_A_TABLE,
)
WRONG = LogForm("nccl-tests-wrong", ("Out of bounds values",),
                re.compile(r"^#? {0,4}Out of bounds values : (?P<count>\d{1,12}) FAILED"), most=OF_A_TABLE)  # fmt: skip
RANK = LogForm(
    "nccl-tests-rank",
    (" device ",),
    re.compile(
        r"^#? {0,6}Rank {1,6}(?P<rank>\d{1,6}) .{0,40}?Pid {1,8}\d{1,9} on {1,40}(?P<host>[\w.-]{1,253}) device "
    ),
)
MATRIX = LogForm(
    "p2p-matrix",
    ("Bandwidth Matrix (GB/s)", "Bandwidth (P2P "),
    re.compile(r"^(?P<way>Uni|Bi)directional P2P=(?P<state>Enabled|Disabled) Bandwidth .{0,20}Matrix \(GB/s\)"),
    follows=18,
    most=8,
)
FORMS = (RESULTS, WRONG, RANK, MATRIX)

SLOWER = 0.8
"""Share of the bandwidth through the host's memory that direct transfers fall below where something diverts them."""

_ROW = re.compile(
    r"^\s{0,20}(?P<size>\d{1,15}) {1,20}\d{1,15} {1,20}[a-z]\w{1,12} {1,12}(?:[a-z]\w{0,12}"
    r" {1,12})?(?:-?\d{1,6} {1,12})?[\d.]{1,12} {1,12}[\d.]{1,12} {1,12}"
    r"(?P<bus>[\d.]{1,12}) {1,12}(?P<wrong>\d{1,12}|N/A|[\d.e+-]{1,12})\b"
)


@dataclass(frozen=True)
class BandwidthRow:
    """Message size of a test."""

    size: int
    bandwidth: float
    """Bus bandwidth in GB/s."""

    wrong: int
    at: int


def bandwidth_rows(table: LogExcerpt) -> list[BandwidthRow]:
    """Return the rows of the results of one test."""
    counts_wrong = "#wrong" in table.lines[0]
    rows = []
    for at, line in enumerate(table.lines):
        if found := _ROW.match(line):
            wrong = int(found["wrong"]) if counts_wrong and found["wrong"].isdigit() else 0
            rows.append(BandwidthRow(int(found["size"]), float(found["bus"]), wrong, at))
        elif "busbw" in line and at:
            break
    return rows


def direct_bandwidths(matrix: LogExcerpt) -> list[float]:
    """Return the bandwidths between different GPUs in a matrix of p2pBandwidthLatencyTest."""
    found: list[float] = []
    for line in matrix.lines[2:]:
        cells = line.split()
        if len(cells) < 3 or not all(re.fullmatch(r"[\d.]{1,12}", cell) for cell in cells) or not cells[0].isdigit():
            break
        found += [float(cell) for at, cell in enumerate(cells[1:]) if at != int(cells[0]) and cell.count(".") == 1]
    return found


def _of_matrices(matrices: Iterable[LogExcerpt]) -> Iterator[Indication]:
    """Yield direct transfers that are slower than those through the host's memory."""
    best: dict[tuple[str, str], tuple[float, LogExcerpt]] = {}
    for each in matrices:
        if bandwidths := direct_bandwidths(each):
            key = each.groups["way"], each.groups["state"]
            best[key] = max(
                best.get(key, (0.0, each)), (sorted(bandwidths)[len(bandwidths) // 2], each), key=lambda x: x[0]
            )
    for way in ("Uni", "Bi"):
        with_p2p, without = best.get((way, "Enabled")), best.get((way, "Disabled"))
        if with_p2p is not None and without is not None and with_p2p[0] < SLOWER * without[0]:
            direct, through = f"{with_p2p[0]:g} GB/s", f"{without[0]:g} GB/s"
            text = f"direct transfers between GPUs reach {direct}, and {through} through the host's memory"
            yield Indication("acs-iommu", text, with_p2p[1], 0, Confidence.MEDIUM, others=(without[1],))
            return


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield wrong values, which are plain, and a bandwidth between hosts far below the rate of their adapters."""
    for line in excerpts.get(WRONG.id, ()):
        text = f"{line.groups['count']} values of nccl-tests are wrong: transfers between the devices corrupt data"
        yield Indication("acs-iommu", text, line, 0, Confidence.MEDIUM)
    yield from _of_matrices(excerpts.get(MATRIX.id, ()))
    hosts = {each.groups["host"] for each in excerpts.get(RANK.id, ())}
    rate = max((port.rate for port in link_ports(excerpts) if port.is_active), default=0.0)
    for table in excerpts.get(RESULTS.id, ()):
        rows = bandwidth_rows(table)
        if (wrong := next((row for row in rows if row.wrong), None)) is not None:
            text = f"{wrong.wrong} values of nccl-tests are wrong at {wrong.size} bytes: transfers corrupt data"
            yield Indication("acs-iommu", text, table, wrong.at, Confidence.MEDIUM)
        large = [row for row in rows if row.size >= LARGE]
        best = max(large, key=lambda row: row.bandwidth, default=None)
        if best is None or len(hosts) < 2 or not rate:
            continue
        if best.bandwidth * 8 < FAR_BELOW * rate:
            reached = f"nccl-tests reaches {best.bandwidth:g} GB/s between {len(hosts)} hosts"
            text = f"{reached}, and a port of the adapters has {rate:g} Gb/s"
            yield Indication("ib-path", text, table, best.at, Confidence.LOW)
