"""Judge dumps of torch's flight recorder that were collected by hand: one file for each rank, pickle or JSON."""

import re
from pathlib import Path

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import UsageError
from pylaunch.model.diagnosis.hang import HangFinding
from pylaunch.protocol.examination import RankView
from pylaunch.verdict.hangs.flight_recorder import DumpRefusedError, FlightRecord, read_json, read_pickle
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.plain_pickle import MOST_BYTES
from pylaunch.verdict.hangs.snapshot import HangEvidence

_RANK = re.compile(r"(\d{1,6})(?:\.(?:json|pkl|pickle))?$")


@dataclass(frozen=True)
class DumpsJudged:
    """Findings on the dumps of one directory."""

    ranks: tuple[int, ...]
    """Ranks with a dump that can be read."""

    absent: tuple[int, ...]
    """Ranks of the groups without one."""

    findings: tuple[HangFinding, ...]
    refused: dict[str, str] = field(default_factory=dict)
    """Files that are no dumps, with the reason."""


def judge_dumps(directory: Path) -> DumpsJudged:
    """Return the findings on the dumps in `directory`; the number at the end of a file's name is its rank.

    Raises UsageError where no file there is a dump.
    """
    records: dict[int, FlightRecord] = {}
    names: dict[int, str] = {}
    refused: dict[str, str] = {}
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        match = _RANK.search(path.name)
        if match is None or not path.is_file():
            continue
        try:
            records[int(match[1])] = _read(path)
            names[int(match[1])] = path.name
        except DumpRefusedError as error:
            refused[path.name] = str(error)
        except OSError as error:
            refused[path.name] = f"cannot be read: {error.strerror}"
    if not records:
        raise UsageError(
            f"--dumps {directory}: no flight recorder dump",
            evidence=[f"{name}: {why}" for name, why in refused.items()],
            hint="name the directory of the files of TORCH_FR_DUMP_TEMP_FILE or TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        )
    members = {rank for record in records.values() for group in record.groups for rank in group.ranks} | records.keys()
    hosts = {rank: names.get(rank, "no dump") for rank in sorted(members)}
    views = tuple(_view(rank, names[rank], record) for rank, record in sorted(records.items()))
    return DumpsJudged(
        tuple(sorted(records)),
        tuple(sorted(members - records.keys())),
        judge_hang(HangEvidence("RUN", hosts, (views,))),
        refused,
    )


def _read(path: Path) -> FlightRecord:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    return read_json(data) if data.lstrip()[:1] == b"{" else read_pickle(data)


def _view(rank: int, name: str, record: FlightRecord) -> RankView:
    return RankView(rank, name, 0.0, 0.0, 0, "", 0.0, "", "", (), record.groups, record.collectives)
