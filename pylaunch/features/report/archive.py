"""A run as one archive for a bug report, with secrets masked: page, record and logs. Works when nodes are down."""

import gzip
import io
import os
import platform
import tarfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass, field
from pylaunch.features.report.log_ends import read_ends
from pylaunch.features.report.page import page
from pylaunch.inventory.load import known_secrets
from pylaunch.model.hostset import fold
from pylaunch.model.run import RunRecord
from pylaunch.model.text.redaction import Redaction
from pylaunch.model.text.size import shown_size
from pylaunch.runs.connect.bounds import LAUNCHER_STREAMS
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.store import runs
from pylaunch.store.files import new_file, refuse_existing, run_paths
from pylaunch.terminal import console

LIMIT = 50_000_000
"""Bytes of all files of an archive before compression."""

MARK = "[pylaunch: lines are omitted here]"
"""Line between the beginning and the end of a file of the record that is cut."""

_RECORD_SHARE = 4
"""Files of the record may take one part of so many of the limit; logs take what the record leaves."""

_LEAST_LOG = 2000
_SHORT_LINE = 40
"""Bytes: decides how many last lines are requested."""


@dataclass
class RunArchive:
    """Files of an archive, masked, and what is missing or cut, with reasons, one line each."""

    mask: Redaction
    texts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        self.texts[name] = self.mask.hide(text)

    def miss(self, line: str) -> None:
        self.missing.append(self.mask.hide(line))

    @property
    def size(self) -> int:
        return sum(len(text.encode("utf-8", "surrogateescape")) for text in self.texts.values())


def write_archive(record: RunRecord, file: Path, limit: int = LIMIT) -> RunArchive:
    """Write the archive of a run to `file`. Raises UsageError if the file exists or cannot be written."""
    refuse_existing(file)
    content = RunArchive(Redaction(known_secrets(record.plan, os.environ)))
    _add_record(content, record, limit)
    console.say(f"asking {fold(record.plan.cluster.names)} for logs")
    _add_logs(content, record, limit)
    content.texts["report.html"] = page(record, time.time(), content.mask.hide)
    content.add("README.txt", _readme(record, content))
    _write(file, f"pylaunch-{record.plan.run}", content.texts, record.created_at)
    return content


def _add_record(content: RunArchive, record: RunRecord, most: int) -> None:
    """Add every file in the records of all attempts of the run."""
    found = [
        (f"record/{attempt}/{path.relative_to(run_paths(attempt).directory)}", path)
        for attempt in runs.attempts(record.plan.run)
        for path in runs.files(attempt)
    ]
    limit = most // _RECORD_SHARE // max(1, len(found))
    for name, path in found:
        try:
            size = path.stat().st_size
            text = path.read_text(encoding="utf-8", errors="replace") if size <= limit else _ends_of(path, limit)
        except OSError as error:
            content.miss(f"{name}: {error.strerror}")
            continue
        if size > limit:
            content.miss(f"{name}: the middle of {shown_size(size)} is omitted")
        content.add(name, text)


def _ends_of(path: Path, limit: int) -> str:
    """Return the first quarter and the end of a large file, within `limit` bytes."""
    head = limit // 4
    with path.open("rb") as file:
        first = file.read(head)
        file.seek(head - limit, os.SEEK_END)
        last = file.read(limit - head)
    return b"\n".join((first, MARK.encode(), last)).decode("utf-8", "replace")


def _add_logs(content: RunArchive, record: RunRecord, most: int) -> None:
    """Add the logs of all ranks and launchers; each gets an equal part of what the limit leaves."""
    plan = record.plan
    streams = [*rank_streams(plan), *LAUNCHER_STREAMS]
    logs = 2 * plan.world_size + 2 * len(plan.nodes)
    limit = max(_LEAST_LOG, (most - content.size) // logs)
    found = read_ends(record, streams, max(1, limit // _SHORT_LINE), limit)
    for (host, stream), text in found.texts.items():
        # A character takes up to four bytes: the bound of the archive is in bytes.
        content.add(f"logs/{_plain(host)}/{_plain(stream)}", _within(text, limit))
    if found.cut:
        content.miss(f"logs: only the end, {shown_size(limit)} at most, of {_named(found.cut)}")
    for reason in found.missing:
        content.miss(f"logs: {reason}")
    silent = sorted({node.host.name for node in plan.nodes} - {host for host, _ in found.texts})
    if silent and not found.missing:
        content.miss(f"logs: no output of ranks on {fold(silent)}")


def _within(text: str, limit: int) -> str:
    size = len(text.encode("utf-8", "surrogateescape"))
    return text if size <= limit else text[-(len(text) * limit // size) :]


def _named(streams: frozenset[tuple[str, str]]) -> str:
    names = [f"{host}:{stream}" for host, stream in sorted(streams)]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _plain(name: str) -> str:
    """Return `name` as a file name that leads nowhere else, different for different names."""
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


_ABOUT = (
    ("record/", "the run's record on the controller: plan, events, outcome, facts of the nodes; all attempts"),
    ("report.html", "the run as one page, see pylaunch help report"),
    ("logs/", "output of ranks and launchers: logs/HOST/RANK.out and .err"),
)


def _readme(record: RunRecord, content: RunArchive) -> str:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    known = f"pylaunch {__version__}, agent {record.agent}, Python {platform.python_version()}, {platform.platform()}"
    outcome = record.outcome
    verdict = "no outcome is recorded" if outcome is None else f"{outcome.status.value}: {outcome.reason}"
    listed = [f"  {name:<17} {text}" for name, text in _ABOUT if any(each.startswith(name) for each in content.texts)]
    missing = [f"  {line}" for line in content.missing] or ["  nothing"]
    return "\n".join(
        [
            f"Run {record.plan.run}: {verdict}",
            f"Written at {now}: {known}",
            "",
            "Content",
            *listed,
            "",
            "Missing or cut",
            *missing,
            "",
            "Secrets are replaced by ***: values of variables, options and inventory keys whose names mark secrets,",
            "and text that has the form of a token, a key or a password in a URL. Read the files before you publish",
            "them.",
            "",
        ]
    )


def _write(file: Path, directory: str, texts: Mapping[str, str], made_at: float) -> None:
    with (
        new_file(file) as out,
        gzip.GzipFile("", "wb", 6, out, mtime=made_at) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, text in sorted(texts.items()):
            data = text.encode("utf-8", "surrogateescape")
            entry = tarfile.TarInfo(f"{directory}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(made_at), 0o600
            archive.addfile(entry, io.BytesIO(data))
