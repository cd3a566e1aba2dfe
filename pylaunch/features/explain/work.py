"""Explain a failure from texts: log files of any launcher, stdin, or the record and the logs of a run."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from io import BufferedReader
from pathlib import Path

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.explain.judgement.error_form import search_of
from pylaunch.features.explain.judgement.ranker import weights
from pylaunch.features.explain.judgement.verdict import LogVerdict, judge_logs
from pylaunch.features.explain.log_files import blocks_of, files_of, stream_blocks
from pylaunch.model.diagnosis.cause import Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, Notes, RunRecord, ignore
from pylaunch.model.text.quantity import shown_size
from pylaunch.runs.events import LinesWritten, RunEvent
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.runs.logs import LogQuery, read_logs
from pylaunch.store.content import signatures
from pylaunch.transport.interrupts import Interrupter, InterruptSource
from pylaunch.verdict.logs.line import Origin, is_number
from pylaunch.verdict.logs.scan import LogScan, LogSearch, scan
from pylaunch.verdict.recognised_ends import scan_of_end

STDIN = "-"
TAIL_LINES = 2000
"""Lines of each stream that are read from the nodes of a run."""

TAILS = 256 << 20
"""Characters of the ends of all streams together."""

LONGEST_TAIL = 4 << 20
QUIET_S = 2.0
PROGRESS_S = 5.0


@dataclass(frozen=True)
class LogExplanation:
    """Verdict on the logs of one run, with what was read."""

    verdict: LogVerdict
    files: int
    lines: int
    size: int
    """Bytes."""

    notes: tuple[str, ...]
    """Files and nodes that could not be read."""

    record: RunRecord | None = None
    """Run whose logs were read; None for files."""

    named: Named | None = None
    """Rank that the record names, whose logs alone were read; None where those of all ranks were."""


def explain_files(
    paths: Sequence[Path], stdin: BufferedReader | None = None, on_note: Notes = ignore,
    clock: Callable[[], float] = time.monotonic,
) -> LogExplanation:  # fmt: skip
    """Explain log files, directories of them, and `stdin` where a path is "-".

    `on_note` receives the progress of work that takes over two seconds.

    Raises UsageError for a path that cannot be read.
    """
    notes: list[str] = []
    search = search_of(signatures())
    progress = _Progress(on_note, clock)
    scans = []
    files: list[Path] = []
    for path in paths:
        if str(path) == STDIN and stdin is not None:
            blocks = progress.of(stream_blocks(stdin, "stdin", notes.append), "stdin")
            scans.append(scan(search, "stdin", blocks, Origin()))
            continue
        try:
            files += files_of(path)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", hint="pylaunch explain LOGFILE…") from None
    for each in files:
        origin = Origin() if files == list(paths) == [each] and is_number(str(each)) else None
        scans.append(scan(search, str(each), progress.of(blocks_of(each, notes.append), str(each)), origin))
    return _explained(scans, notes)


class _Progress:
    """Reports how much was read, first after QUIET_S and then every PROGRESS_S."""

    def __init__(self, emit: Notes, clock: Callable[[], float]) -> None:
        self._emit = emit
        self._clock = clock
        self._size = 0
        self._due = clock() + QUIET_S

    def of(self, blocks: Iterable[bytes], name: str) -> Iterable[bytes]:
        """Yield `blocks`, which are of the log `name`."""
        for block in blocks:
            self._size += len(block)
            if (now := self._clock()) >= self._due:
                self._due = now + PROGRESS_S
                self._emit(f"reading {name}: {shown_size(self._size)} so far")
            yield block


def explain_run(
    record: RunRecord, emit: Callable[[str], None], interrupts: InterruptSource | None = None
) -> LogExplanation:
    """Explain a run by its record, and by the last lines of its logs where its nodes answer and have them.

    The record knows who failed first, by corrected time and the state of every rank: if it names a rank, only the texts
    of this rank are read. What the others wrote is about a rank that was gone.
    """
    notes: list[str] = []
    search = search_of(signatures())
    named = _named(record.outcome)
    streams = rank_streams(record.plan, None if named is None else named.rank)
    nodes = [node for node in record.plan.nodes if named is None or node.host.name == named.host]
    collector = _Tails(emit, min(LONGEST_TAIL, TAILS // len(streams)))
    query = LogQuery(nodes, streams, tail=TAIL_LINES)
    source = Interrupter() if interrupts is None else interrupts
    try:
        read_logs(record, query, collector.take, source)
    except ClusterNotReadyError as error:
        notes.append(f"no node sent its logs: {error.message}; the record is used alone")
    scans = list(collector.scans(search))
    with_logs = {each.origin.rank for each in scans if each.size}
    failed = () if record.outcome is None else (end for end in record.outcome.ends if end.failed)
    ends = (end for end in failed if (named is None or end.rank == named.rank) and end.rank not in with_logs)
    scans += [scan_of_end(search, end) for end in ends]
    explained = _explained(scans, notes)
    verdict = explained.verdict
    if record.outcome is not None and record.outcome.status is Status.DONE:
        verdict = _of_done(verdict)
    if (first := verdict.first_error) is not None:
        verdict = replace(verdict, first_error=replace(first, run=record.plan.run))
    return replace(explained, verdict=verdict, record=record, named=named)


def _explained(scans: Sequence[LogScan], notes: Sequence[str]) -> LogExplanation:
    verdict = judge_logs(signatures(), scans, weights())
    return LogExplanation(
        verdict, len(scans), sum(each.lines for each in scans), sum(each.size for each in scans), tuple(notes)
    )


def _named(outcome: Outcome | None) -> Named | None:
    """Return the rank that the record names; None if it names none, or is not sure."""
    if outcome is None or not outcome.causes or outcome.causes[0].confidence is Confidence.LOW:
        return None
    named = outcome.causes[0].named
    return named if named is not None and named.rank is not None else None


def _of_done(verdict: LogVerdict) -> LogVerdict:
    """Return the verdict on the texts of a run that ended well: it survived each of them, and nothing has a cause."""
    errors = [] if verdict.first_error is None else [verdict.first_error.evidence]
    errors += [line for cause in verdict.causes if verdict.failed for line in cause.evidence[:1]]
    survived = tuple(dict.fromkeys([*verdict.survived, *errors]))
    return replace(verdict, causes=(), failed=False, first_error=None, survived=survived, suggestions=())


class TextTail:
    """The end of a text that arrives in pieces, `limit` characters at most, from the beginning of a line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[str] = deque()
        self._kept = 0

    def add(self, piece: str) -> None:
        """Append `piece`."""
        self._pieces.append(piece)
        self._kept += len(piece)
        while self._kept - len(self._pieces[0]) >= self._limit:
            self._kept -= len(self._pieces.popleft())

    @property
    def text(self) -> str:
        """The text that is kept."""
        text = "".join(self._pieces)
        end = text[-self._limit :]
        return end if end == text else end.partition("\n")[2] or end


class _Tails:
    """Ends of the logs of all ranks, as their nodes send them."""

    def __init__(self, emit: Callable[[str], None], limit: int) -> None:
        self._emit = emit
        self._limit = limit
        self._tails: dict[tuple[str, str], TextTail] = {}

    def take(self, event: RunEvent) -> None:
        """Keep the end of a stream; emit notices."""
        if isinstance(event, LinesWritten):
            self._tails.setdefault((event.host, event.stream), TextTail(self._limit)).add(event.text)
        elif isinstance(event, Event):
            self._emit(event.text)

    def scans(self, search: LogSearch) -> Iterable[LogScan]:
        """Yield the scan of every stream."""
        for (host, stream), tail in sorted(self._tails.items()):
            rank = stream.partition(".")[0]
            origin = Origin(host, int(rank) if rank.isdigit() else None)
            yield scan(search, f"{host}/{stream}", [tail.text.encode("utf-8", "surrogateescape")], origin)
