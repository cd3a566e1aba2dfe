"""Find the signatures and exceptions in a log of any size, in bounded memory. Pure: bytes in, values out.

The search has three steps. The words of a block, each once, exclude most of the anchors. The others are searched in the
bytes of the block. Only lines with an anchor are decoded and compared with the patterns of its signatures.
"""

import itertools
import re
from collections.abc import Callable, Iterable

from pylaunch.base.dataclass import dataclass, field
from pylaunch.verdict.logs.blocks import (
    BLOCK,
    PER_BLOCK,
    after_bar,
    first_and_last,
    line_at,
    line_start,
    lines_from,
    lines_with,
    sized,
)
from pylaunch.verdict.logs.line import (
    LONGEST,
    LinePrefixes,
    LogTime,
    Origin,
    ParsedLine,
    learn_prefixes,
    origin_of_name,
)
from pylaunch.verdict.logs.signature import Signature, SignatureCatalogue
from pylaunch.verdict.logs.traceback import OTHERS, TRACEBACK, ExceptionUnit, UnitGatherer

OVERLAP = 128 << 10
"""Bytes at the end of a block that are searched with the next one, so that a traceback is seen whole."""

ENDING = 32 << 10
"""Bytes at the end of a log in which every text counts again."""

FOLLOWING = 30
"""Lines after a match that the pattern of a text with several lines may use."""

WRAPPED = 3
"""Lines that a wrapped line may continue on."""

PER_ORIGIN = 3
"""First matches of a signature, and lines of the form with one key, that are kept for each process."""

TRIES = 100
"""Lines with an anchor of a signature that are read for each process."""

LONGEST_KEPT = 1000
"""Characters of a line that are kept."""

TAIL = 100
"""Last lines of a log that are kept."""

HEAD = 400
"""First lines of a log from which the prefixes of its lines are learnt."""

MOST_MATCHES = 20_000
MOST_KEPT = 20_000
"""Lines of the form that are kept of one log."""

EVIDENCE_LENGTH = 240
"""Characters of a line in a verdict."""

MOST_EXCEPTIONS = 2_000
MOST_ORIGINS = 100_000
SAMPLE = 64 << 10
_PROGRESS = re.compile(
    rb"(?i)\b(?:step|iter(?:ation)?|epoch|batch)(?:(?!s =)s?\b[]:# ]|=)[\]:=# ]{0,2}\[?\d{1,9}(?-i:(?![\d.]{0,20} ON ))"
    rb"|\bloss\b[\"']?[=: ]{1,3}-?\d|\d(?:\.\d{1,4})? ?(?:it/s|s/it)"
)
_OVERWRITTEN = re.compile(r" {20,}")
"""Blanks with which a progress bar clears its line."""

_CLOCK = re.compile(r"\[?\d{2}:\d{2}:\d{2}\b")
_WORD = re.compile(rb"[A-Za-z_]{4,}")
_TRACEBACK_WORDS = (b"Traceback", b"recent")
_RANKS = re.compile(
    rb"(?m)^(?:\x1b\[[0-9;]{0,10}m)?\[(?:rank|(default))?:? ?(?:\d{1,9},)?(\d{1,7})\](?:<std|:)"
    rb"|\b[Rr]ank[ :=]{1,2}(\d{1,7})\b"
)


@dataclass(frozen=True)
class LineForm:
    """Lines of errors that are kept beside those of the signatures: found by literals, in bounded number."""

    anchors: tuple[bytes, ...]
    """Literals: each of these lines contains one."""

    key: Callable[[str], str | None]
    """Returns what lines of a process must have in common to count as the same; None for a line that is not wanted.

    Gets a line without its prefixes. The number of different keys should be small.
    """


@dataclass(frozen=True)
class LogMatch:
    """Signature in a line."""

    signature: Signature
    origin: Origin
    time: LogTime | None
    file: str
    line: int
    text: str
    """Line without its prefixes."""

    groups: dict[str, str]
    exception: ExceptionUnit | None = None
    """For an exception that no signature explains: its text."""


@dataclass(frozen=True)
class KeptLine:
    """Line of an error, or one of the last lines."""

    origin: Origin
    time: LogTime | None
    file: str
    line: int
    text: str
    """Line without its prefixes."""


@dataclass(frozen=True)
class EvidenceLine:
    """Line of a log that supports a cause."""

    file: str
    line: int
    who: str
    """Process that wrote it: "rank 3 on n2"; "" if the log does not show it."""

    text: str


def evidence_of(line: LogMatch | KeptLine) -> EvidenceLine:
    """Return a line of a log as evidence."""
    return EvidenceLine(line.file, line.line, str(line.origin), _OVERWRITTEN.sub(" ", line.text)[:EVIDENCE_LENGTH])


@dataclass
class LogScan:
    """Content of one log that matters."""

    file: str
    origin: Origin
    lines: int = 0
    size: int = 0
    matches: list[LogMatch] = field(default_factory=list)
    """In the order of the lines."""

    exceptions: list[ExceptionUnit] = field(default_factory=list)
    errors: list[KeptLine] = field(default_factory=list)
    """Lines of the form that was searched, in their order."""

    counts: dict[tuple[str, Origin], int] = field(default_factory=dict)
    """Matches by signature and process, and lines by key and process, those that are not kept too."""

    ranks: set[int] = field(default_factory=set)
    """Ranks that wrote a line or are named in one."""

    writers: set[int] = field(default_factory=set)
    """Ranks whose prefix is on a line."""

    progress: dict[Origin, list[int]] = field(default_factory=dict)
    """Numbers of the lines with a step, an epoch or a loss near the end of the log, by process."""

    times_progress: bool = False
    """Such lines have a time, so they are written when they happen. Plain prints may be flushed at the exit."""

    made_progress: bool = False
    """Steps, epochs or losses are in its beginning or its end."""

    tail: list[KeptLine] = field(default_factory=list)
    """Last lines that are not empty."""

    last: dict[Origin, KeptLine] = field(default_factory=dict)
    """Last line of each process near the end of the log."""


@dataclass(frozen=True)
class LogSearch:
    """Signatures prepared for the search in bytes; made once for a catalogue."""

    anchors: tuple[tuple[bytes, tuple[bytes, ...], tuple[Signature, ...]], ...]
    """Each anchor with its words and the signatures that it leads to."""

    form: LineForm | None = None
    form_anchors: tuple[tuple[bytes, tuple[bytes, ...]], ...] = ()
    """Each anchor of the form with its words."""

    @classmethod
    def of(cls, catalogue: SignatureCatalogue, form: LineForm | None = None) -> "LogSearch":
        """Prepare all signatures of `catalogue`, and the lines of `form`."""
        table: dict[str, list[Signature]] = {}
        for signature in catalogue.signatures.values():
            for anchor in signature.anchors:
                table.setdefault(anchor, []).append(signature)
        entries = ((anchor.encode(), tuple(signatures)) for anchor, signatures in table.items())
        return cls(
            tuple((anchor, tuple(_WORD.findall(anchor)), signatures) for anchor, signatures in entries),
            form,
            () if form is None else tuple((anchor, tuple(_WORD.findall(anchor))) for anchor in form.anchors),
        )


def scan(search: LogSearch, file: str, blocks: Iterable[bytes], origin: Origin | None = None) -> LogScan:
    """Search a log that arrives as blocks of any size.

    With the rank of `origin` all lines are that rank's, whatever prefixes they have; without, prefixes and the name of
    the file decide.
    """
    return _Scanner(search, LogScan(file, origin or origin_of_name(file)), origin).scanned(blocks)


class _Scanner:
    def __init__(self, search: LogSearch, found: LogScan, origin: Origin | None) -> None:
        self._search = search
        self._is_of_one = origin is not None and origin.rank is not None
        self._found = found
        self._prefixes = LinePrefixes()
        self._is_end = False
        self._traced: dict[Origin, int] = {}
        self._latest: dict[tuple[str, Origin], int] = {}
        self._last_of_unit: dict[Origin, int] = {}

    def scanned(self, blocks: Iterable[bytes]) -> LogScan:
        held = b""
        is_first = True
        for block in sized(blocks):
            held += block
            if is_first:
                self._learn(held)
                is_first = False
            if len(held) < BLOCK:
                continue
            end = held.rfind(b"\n", 0, len(held) - OVERLAP) + 1 or len(held) - OVERLAP
            self._search_block(held, end)
            held = held[end:]
        whole = held
        cut = held.rfind(b"\n", 0, max(0, len(held) - ENDING)) + 1
        self._search_block(held, cut)
        held = held[cut:]
        self._found.counts.clear()  # The end of a log counts, however often its texts were before.
        self._is_end = True
        self._search_block(held, len(held), is_end=True)
        self._found.lines += 0 if not held or held.endswith(b"\n") else 1
        self._end(whole)
        self._found.exceptions.sort(key=lambda unit: unit.line)
        self._found.matches.sort(key=lambda match: match.line)
        return self._found

    def _learn(self, beginning: bytes) -> None:
        sample = beginning[:SAMPLE]
        lines = sample.decode("utf-8", "replace").split("\n")[:HEAD]
        self._prefixes = learn_prefixes(lines, is_of_one=self._is_of_one)
        self._found.made_progress = _PROGRESS.search(sample) is not None

    def _end(self, rest: bytes) -> None:
        ending = rest[-SAMPLE:]
        lines = ending.split(b"\n")
        first = self._found.lines - len(lines) + (1 if lines[-1] else 2)
        shown = [(first + at, line.decode("utf-8", "replace")) for at, line in enumerate(lines) if line.strip()]
        lines_of: list[KeptLine] = []
        for number, line in shown:
            lines_of.append(kept := self._kept(number, line))
            if _PROGRESS.search(line.encode()) is not None:
                self._found.progress.setdefault(kept.origin, []).append(number)
                is_timed = kept.time is not None or _CLOCK.match(line) is not None
                self._found.times_progress = self._found.times_progress or is_timed
        self._found.made_progress = self._found.made_progress or bool(self._found.progress)
        self._found.tail = lines_of[-TAIL:]
        self._found.last = {line.origin: line for line in lines_of if line.text}

    def _kept(self, number: int, raw: str) -> KeptLine:
        parsed = self._prefixes.parse(after_bar(raw), self._found.origin)
        text = parsed.text.strip()[:LONGEST_KEPT]
        return KeptLine(parsed.origin, parsed.time, self._found.file, number, text)

    def _search_block(self, held: bytes, end: int, *, is_end: bool = False) -> None:
        """Search the lines that begin in `held[:end]`; the rest of `held` is what follows them."""
        words = b"\n".join(set(_WORD.findall(held, 0, end)))
        hits, tracebacks = self._hits(held, end, words)
        formed = self._formed(held, end, words)
        tracer = _Tracer(self, self._found.file, held)
        before, position = self._found.lines, 0
        for start in sorted(hits.keys() | formed):
            before += held.count(b"\n", position, start)
            position = start
            first = self.parsed(line_at(held, start)[0])
            if start in tracebacks:
                tracer.begin_at(start, before + 1, first)
            self._look(held, start, before + 1, first, hits.get(start, []))
            if start in formed:
                self._keep_line(before + 1, first)
        tracer.finish(is_end=is_end)
        self._found.lines += held.count(b"\n", 0, end)
        self._found.size += end
        if len(self._found.ranks) < MOST_ORIGINS:
            for local, own, named in set(_RANKS.findall(held, 0, end)):
                self._found.ranks.add(int(own or named))
                if own and not local and not self._is_of_one:
                    self._found.writers.add(int(own))

    def parsed(self, raw: str) -> ParsedLine:
        """Return a line without its prefixes."""
        return self._prefixes.parse(raw, self._found.origin)

    def _hits(self, held: bytes, end: int, words: bytes) -> tuple[dict[int, list[Signature]], set[int]]:
        """Return the signatures whose anchor is in a line, by the position of the line, and the lines of tracebacks."""
        hits: dict[int, list[Signature]] = {}
        tracebacks: set[int] = set()
        for anchor, parts, signatures in self._search.anchors:
            if all(part in words for part in parts):
                for begin in lines_with(held, end, anchor):
                    known = hits.setdefault(begin, [])
                    known += [each for each in signatures if each not in known]
        if not all(part in words for part in _TRACEBACK_WORDS):
            return hits, tracebacks
        at, count = held.find(TRACEBACK, 0, end), 0
        while at >= 0 and count < PER_BLOCK:
            count += 1
            begin = line_start(held, at)
            hits.setdefault(begin, [])
            tracebacks.add(begin)
            at = held.find(TRACEBACK, at + 1, end)
        return hits, tracebacks

    def _formed(self, held: bytes, end: int, words: bytes) -> set[int]:
        """Return the positions of the lines that may have the form."""
        lines: set[int] = set()
        for anchor, parts in self._search.form_anchors:
            if all(part in words for part in parts):
                lines.update(lines_with(held, end, anchor))
        return {*first_and_last(sorted(lines))}

    def _keep_line(self, number: int, first: ParsedLine) -> None:
        """Keep a line with the form, unless its process has enough lines with its key already."""
        key = None if self._search.form is None else self._search.form.key(first.text)
        if key is None:
            return
        counts, counted, kept = self._found.counts, (f"form {key}", first.origin), self._found.errors
        count = counts.get(counted, 0) + 1
        if count > PER_ORIGIN or len(counts) >= MOST_ORIGINS or len(kept) >= MOST_KEPT:
            return
        counts[counted] = count
        text = first.text.strip()[:LONGEST_KEPT]
        kept.append(KeptLine(first.origin, first.time, self._found.file, number, text))

    def _look(self, held: bytes, start: int, number: int, first: ParsedLine, signatures: list[Signature]) -> None:
        wanted = [each for each in signatures if self._is_wanted(each, first.origin)]
        if not wanted:
            return
        count = FOLLOWING if any(each.spans for each in wanted) else WRAPPED
        following = itertools.islice(lines_from(held, start, FOLLOWING * LONGEST, count + 1), 1, None)
        parsed = (self._prefixes.parse(line, first.origin) for line in following)
        rest = [line.text.strip() for line in parsed if line.origin == first.origin]
        text = first.text[:LONGEST]
        window = " ".join([text, *rest])[: 2 * LONGEST]
        wrapped = " ".join([text, *rest[:WRAPPED]])
        for signature in wanted:
            pattern = signature.pattern
            found = pattern.search(window) if signature.spans else pattern.search(text) or pattern.search(wrapped)
            if found is not None and found.start() < max(1, len(text)):
                groups = {name: value for name, value in found.groupdict().items() if value is not None}
                origin = first.origin
                if "by" in groups and origin.rank is None:
                    origin = Origin(origin.host, int(groups["by"]), origin.local)
                self._add(LogMatch(signature, origin, first.time, self._found.file, number, text.strip(), groups))

    def _add(self, match: LogMatch) -> None:
        key, matches = (f"match {match.signature.id}", match.origin), self._found.matches
        count = self._found.counts[key] = self._found.counts.get(key, 0) + 1
        if count > PER_ORIGIN + 1:
            matches[self._latest[key]] = match
        elif len(matches) < MOST_MATCHES:
            self._latest[key] = len(matches)
            matches.append(match)

    def _is_wanted(self, signature: Signature, origin: Origin) -> bool:
        key = (signature.id, origin)
        count = self._found.counts[key] = self._found.counts.get(key, 0) + 1
        return count <= TRIES and len(self._found.matches) < MOST_MATCHES

    def may_trace(self, number: int, origin: Origin) -> bool:
        """Return True for a line that may begin a chain of exceptions to keep."""
        if number <= self._last_of_unit.get(origin, 0) or len(self._found.exceptions) >= MOST_EXCEPTIONS:
            return False
        return self._is_end or self._traced.get(origin, 0) < PER_ORIGIN * 4

    def keep(self, unit: ExceptionUnit) -> None:
        """Keep a chain of exceptions."""
        self._traced[unit.origin] = self._traced.get(unit.origin, 0) + 1
        self._last_of_unit[unit.origin] = unit.last
        self._found.exceptions.append(unit)


class _Tracer:
    """Reads the lines of a block after its tracebacks, each once, whichever processes they are of."""

    def __init__(self, scanner: _Scanner, file: str, held: bytes) -> None:
        self._scanner = scanner
        self._held = held
        self._units = UnitGatherer(file)
        self._next, self._number = 0, 0
        """Position and number of the next line to read, while chains are gathered."""

    def begin_at(self, start: int, number: int, first: ParsedLine) -> None:
        """Begin a chain at a line with TRACEBACK, unless the line continues one."""
        self._read_until(start)
        self._keep(self._units.take(number, first))
        if not self._units.is_inside(first.origin) and self._scanner.may_trace(number, first.origin):
            raw = "" if start < 2 else line_at(self._held, line_start(self._held, start - 2))[0]
            self._units.begin(number, first, self._scanner.parsed(raw))
        self._next, self._number = line_at(self._held, start)[1], number + 1

    def finish(self, *, is_end: bool) -> None:
        """Read the rest of the block, as far as chains continue in it."""
        self._read_until(len(self._held))
        self._keep(*self._units.rest(is_end=is_end))

    def _read_until(self, end: int) -> None:
        while self._units.is_gathering and self._next < end:
            text, after = line_at(self._held, self._next)
            self._keep(self._units.take(self._number, self._scanner.parsed(text)))
            self._next, self._number = after, self._number + 1
            if self._number % OTHERS == 0:
                self._keep(*self._units.ended(self._number))

    def _keep(self, *units: ExceptionUnit | None) -> None:
        for unit in units:
            if unit is not None:
                self._scanner.keep(unit)
