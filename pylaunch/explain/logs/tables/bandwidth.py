"""Results of nccl-tests: wrong values, and a bus bandwidth far below the links that the same log shows. Pure.

Half of the peak of one adapter is expected of the largest messages at least: NCCL reaches about 12 GB/s for 100 Gb/s
(https://github.com/NVIDIA/nccl-tests/issues/119).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pylaunch.base.dataclass import dataclass
from pylaunch.explain.logs.form import OF_A_TABLE, Excerpts, LogExcerpt, LogForm
from pylaunch.explain.logs.indication import Indication
from pylaunch.explain.logs.tables.links import link_ports
from pylaunch.model.confidence import Confidence

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
FORMS = (RESULTS, WRONG, RANK)

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


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield wrong values, which are plain, and a bandwidth between hosts far below the rate of their adapters."""
    for line in excerpts.get(WRONG.id, ()):
        text = f"{line.groups['count']} values of nccl-tests are wrong: transfers between the devices corrupt data"
        yield Indication("acs-iommu", text, line, 0, Confidence.MEDIUM)
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
