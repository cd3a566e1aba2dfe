"""A run as one archive for a bug report, with secrets masked: page, record and logs. Works when nodes are down."""

import gzip
import io
import os
import platform
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.report.page import page
from pylaunch.inventory.load import known_secrets
from pylaunch.model.hostset import fold
from pylaunch.model.run import Event, RunRecord
from pylaunch.model.text.excerpt import TextTail
from pylaunch.model.text.quantity import shown_size
from pylaunch.model.text.redaction import Redaction
from pylaunch.runs.connect.bounds import LAUNCHER_STREAMS
from pylaunch.runs.connect.interruptible import Interrupter
from pylaunch.runs.events import LinesWritten, RunEvent
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.runs.logs import LogQuery, read_logs
from pylaunch.store import runs
from pylaunch.store.files import new_file, refuse_existing, run_paths
from pylaunch.terminal import console

LIMIT = 12_000_000
"""Characters of all logs, and of the files of the record; each file gets an equal part."""

DEADLINE_S = 60.0
"""For all logs together."""

SHORT_LINE = 40
"""Characters: decides how many last lines are requested."""

README = """\
Run {run}: {verdict}
Written at {now}: pylaunch {version}, agent {agent}, Python {python}, {system}

Content
  report.html  the run as one page, see pylaunch help report
  record/      the run's record on the controller: plan, events, outcome, facts of the nodes; all attempts
  logs/        output of ranks and launchers: logs/HOST/RANK.out and .err

Missing or cut
{missing}

Secrets are replaced by ***: values of variables, options and inventory keys whose names mark secrets,
and text that has the form of a token, a key or a password in a URL. Read the files before you publish
them.
"""


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


def write_archive(record: RunRecord, file: Path, limit: int = LIMIT) -> RunArchive:
    """Write the archive of a run to `file`. Raises UsageError if the file exists or cannot be written."""
    refuse_existing(file)
    content = RunArchive(Redaction(known_secrets(record.plan, os.environ)))
    _add_record(content, record, limit)
    console.say(f"asking {fold(record.plan.cluster.names)} for logs")
    _add_logs(content, record, limit)
    content.texts["report.html"] = page(record, time.time(), content.mask.hide)
    outcome = record.outcome
    content.add("README.txt", README.format(
        run=record.plan.run, agent=record.agent, version=__version__, python=platform.python_version(),
        verdict="no outcome is recorded" if outcome is None else f"{outcome.status.value}: {outcome.reason}",
        now=datetime.now(UTC).isoformat(timespec="seconds"), system=platform.platform(),
        missing="\n".join(f"  {line}" for line in content.missing or ["nothing"]),
    ))  # fmt: skip
    _write(file, f"pylaunch-{record.plan.run}", content.texts, record.created_at)
    return content


def _add_record(content: RunArchive, record: RunRecord, most: int) -> None:
    """Add every file in the records of all attempts of the run, of a large one its end."""
    found = [
        (f"record/{attempt}/{path.relative_to(run_paths(attempt).directory)}", path)
        for attempt in runs.attempts(record.plan.run)
        for path in runs.files(attempt)
    ]
    limit = most // max(1, len(found))
    for name, path in found:
        try:
            with path.open("rb") as source:
                size = path.stat().st_size
                source.seek(max(0, size - limit))
                text = source.read(limit).decode("utf-8", "replace")
        except OSError as error:
            content.miss(f"{name}: {error.strerror}")
            continue
        if size > limit:
            content.miss(f"{name}: only the last {shown_size(limit)} of {shown_size(size)}")
        content.add(name, text)


def _add_logs(content: RunArchive, record: RunRecord, most: int) -> None:
    """Add the logs of all ranks and launchers."""
    plan = record.plan
    limit = most // (2 * plan.world_size + 2 * len(plan.nodes))
    tails: dict[tuple[str, str], TextTail] = {}
    query = LogQuery(plan.nodes, [*rank_streams(plan), *LAUNCHER_STREAMS], tail=max(1, limit // SHORT_LINE))

    def take(written: LinesWritten) -> None:
        tails.setdefault((written.host, written.stream), TextTail(limit)).add(written.text)

    missing = _read(record, query, take)
    for (host, stream), tail in sorted(tails.items()):
        content.add(f"logs/{_plain(host)}/{_plain(stream)}", tail.text)
        if tail.is_cut or tail.lines >= limit // SHORT_LINE:
            content.miss(f"logs: only the end of {host}:{stream}")
    for reason in missing:
        content.miss(f"logs: {reason}")
    silent = sorted({node.host.name for node in plan.nodes} - {host for host, _ in tails})
    if silent and not missing:
        content.miss(f"logs: no output of ranks on {fold(silent)}")


def _read(record: RunRecord, query: LogQuery, on_output: Callable[[LinesWritten], None]) -> list[str]:
    """Read logs from the nodes until the deadline, and return the reasons for which some are missing."""
    missing: list[str] = []
    interrupter, is_late = Interrupter(), threading.Event()

    def take(event: RunEvent) -> None:
        if isinstance(event, LinesWritten):
            on_output(event)
        elif isinstance(event, Event):
            missing.append(event.text)

    def end() -> None:
        is_late.set()
        interrupter.interrupt(f"no answer within {DEADLINE_S:g} s")

    timer = threading.Timer(DEADLINE_S, end)
    timer.start()
    try:
        read_logs(record, query, take, interrupter)
    except ClusterNotReadyError as error:
        missing += error.evidence
    except KeyboardInterrupt:
        if not is_late.is_set():
            raise
    finally:
        timer.cancel()
    return [*missing, *([f"not all logs were sent within {DEADLINE_S:g} s"] if is_late.is_set() else [])]


def _plain(name: str) -> str:
    """Return `name` as a file name that leads nowhere else, different for different names."""
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


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
