"""A line of a log without the prefixes of its launcher: rank, host, time and text. Pure.

Prefixes: torchrun `[default0]:` and `[rank3]:`; srun -l `3: `; mpirun --tag-output `[1,3]<stderr>:`; pdsh and
deepspeed `host: `; ray `(train pid=71, ip=10.0.0.3) `; kubectl `[pod/name/container] `; pylaunch `n2:5 | `;
NCCL `host:pid:tid [dev] NCCL …`. Times: glog, ISO 8601, Python logging, syslog, dmesg -T.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.untrusted_json import UntrustedJsonError
from pylaunch.base.untrusted_json import parse as parse_json

LONGEST = 4000
"""Characters of a line that are read."""

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
_PEELED = 6
"""Prefixes of one line that are removed at most."""

_PREFIXES = (
    re.compile(r"\[rank:? ?(?P<rank>\d{1,7})\]:? ?"),
    re.compile(r"\[(?!rank)[A-Za-z_]{1,30}(?P<local>\d{1,4})\]:"),
    re.compile(r"\[(?:prterun-[^\]@]{1,100}@)?\d{1,9},(?P<rank>\d{1,7})\](?:<(?:stdout|stderr|stddiag)>)?:? ?"),
    re.compile(r"\[pod/(?P<host>[^/\]]{1,253})/[^\]]{1,253}\] "),
    re.compile(
        r"\((?P<task>[\w.:<>-]{1,100}) (?:rank=(?P<rank>\d{1,7}) )?pid=\d{1,9}(?:, ip=(?P<host>[\w.:]{1,64}))?\) "
    ),
    re.compile(r"(?P<host>[\w.-]{1,253}):(?P<rank>\d{1,7}) \| "),
)
_NUMBERED = re.compile(
    r"(?:\[(?=\d{1,4}\] )|(?:[A-Za-z][\w.]{0,30}-)?(?:pod|worker|rank|proc|process|p|w|r)[-_ ]?(?=\d))"
    r"(?P<rank>\d{1,4})(?:\] |> | ?\| |: | )"
)
"""Number of the process before all lines: `[3] `, `pod-0 `, `p2> `."""

_SRUN = re.compile(r" {0,6}(?P<rank>\d{1,7}): ?")
_PDSH = re.compile(r"(?!(?:srun|slurmstepd|mpirun): )(?P<host>[A-Za-z0-9][\w.-]{0,253}): ")
_NCCL = re.compile(r"(?P<host>[\w.-]{1,253}):\d{1,9}:\d{1,9} \[\w{1,7}\] ")
_WRITTEN_BY = re.compile(r"\[(?:PG [^\]]{0,120}?|default\d? ?)?\b[Rr]ank (?P<rank>\d{1,7})\]|\bTP(?P<tp>\d{1,4})\]")
_HEAD = (
    r" ?(?:[A-Z]\d{4} |[A-Z][a-z]{2} {1,2})?[\[({<]?[\d:.,/TZ+ -]{0,32}[\])}>]?[ |-]{0,4}"
    r"(?:[\[(<]?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)[\])>]?[ :|,-]{1,12})?"
    r"(?:[A-Za-z][\w.]{0,40}(?: - |: | \| |:))?"
)
"""Time, level and logger before a rank."""


def _labelled(words: str) -> re.Pattern[str]:
    """Return the pattern of lines that begin with one of `words` and a number, in brackets or before a separator."""
    return re.compile(
        rf"{_HEAD}(?:(?P<open>[\[(<])(?:[\w.-]{{1,20}}[ :])?|\b)"
        rf"(?P<word>(?i:{words}))[ =:_#-]{{0,2}}(?P<rank>\d{{1,7}})(?(open)(?:[/ ,|:][^\])>]{{0,30}})?[\])>]"
        r"|(?:/\d{1,7})?(?::(?!\d)| ?\|| (?=\[?\d\d:\d\d:|\[?\d{4}-\d\d-|(?:DEBUG|INFO|WARN|ERROR)\b)"
        r"|,? (?i:step|epoch|iter|batch|loss)|, | - ))"
    )


_BEGINS_WITH = _labelled("rank")
"""Rank at the beginning, after a time and a level: `[rank 2] `, `(rank=2) `, `RANK 2: `; not "waiting for rank 2"."""

_OTHER_LABEL = _labelled("r|w|p|tr|rk|peer|client|member|worker|wrk|proc|process|learner|trainer|actor|replica")
"""Numbers of processes that a script calls otherwise: `[w3] `, `learner 2: `."""

_BRACKETED = re.compile(rf"{_HEAD}(?P<word>[A-Za-z][\w.-]{{0,30}})\[(?P<rank>\d{{1,7}})\]:? ")
_UNNAMED = re.compile(rf"{_HEAD}(?P<word>[\[(])(?P<rank>\d{{1,4}})(?:/(?P<size>\d{{1,4}}))?[\])] ")
"""Number in brackets alone, `[2] ` or `[2/3] `: of a process where several are interleaved, else of a step."""

_KEY_RANK = re.compile(rf"{_HEAD}rank=(?P<rank>\d{{1,7}})[ ,]")
_JSON_RANK = re.compile(r'\{.{0,200}?"(?:global_rank|rank|r)": ?(?P<rank>\d{1,7})(?![\d.])')
_JSON_ERROR = re.compile(
    r'\{(?!.{0,2000}"(?:exit_?code|rc)").{0,400}?"(?:level|lvl|severity|levelname)"'
    r': ?"(?P<level>(?i:warn(?:ing)?|err(?:or)?|critical|fatal))"'
    r'.{0,400}?"(?:message|msg|event|text|m)": ?(?P<text>"(?:[^"\\]|\\.){0,3900}")'
)
"""Message of a logger that writes objects, at a level of an error."""

_JSON_LINE = re.compile(r'\{.{0,400}?"(?:line|log)": ?(?P<text>"(?:[^"\\]|\\.){0,3900}")')
"""Line of output in an object of a supervisor, or of Docker's log files."""

LEAST_LABELLED = 3
"""Lines with such a number that show that a script labels its lines with it."""

_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
_DAY = r"\d{4}[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ]"
_TIMES = (
    ("utc", re.compile(rf"\[?{_DAY}{_CLOCK}(?:[.,](?P<f>\d{{1,9}}))?(?:Z|(?P<sign>[+-])(?P<oh>\d\d):?(?P<om>\d\d))")),
    ("local", re.compile(rf"[\[(]?{_DAY}{_CLOCK}(?:[.,](?P<f>\d{{1,9}}))?")),
    (
        "local",
        re.compile(rf"(?:\[rank\d{{1,7}}\]:)?\[?[IWEF](?P<month>\d{{1,2}}?)(?P<day>\d\d) {_CLOCK}\.(?P<f>\d{{3,9}})"),
    ),
    (
        "local",
        re.compile(
            r"\[?(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
            rf" {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}"
        ),
    ),
    ("local", re.compile(rf"\[?(?P<month>\d\d)/(?P<day>\d\d)/\d{{4}} {_CLOCK}")),
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LEAP_YEAR = datetime(2000, 1, 1, tzinfo=UTC)
"""Year of all times: a log shows no 29 February where there is none."""


@dataclass(frozen=True)
class LogTime:
    """Time of a line. Two times can be compared if their `zone` is the same."""

    zone: str
    seconds: float
    """Seconds since the beginning of the year."""


@dataclass(frozen=True)
class Origin:
    """Process that wrote a line, as far as the log shows it."""

    host: str | None = None
    rank: int | None = None
    local: int | None = None
    """Local rank; used only where the global one is unknown."""

    def __str__(self) -> str:
        on = f" on {self.host}" if self.host else ""
        if self.rank is not None:
            return f"rank {self.rank}{on}"
        return f"local rank {self.local}{on}" if self.local is not None else self.host or ""


@dataclass(frozen=True)
class ParsedLine:
    """Line of a log without its prefixes."""

    origin: Origin
    time: LogTime | None
    text: str


@dataclass(frozen=True)
class LinePrefixes:
    """Prefixes that only the majority of a log's lines can establish, because they look like any text."""

    srun: bool = False
    pdsh: bool = False
    numbered: bool = False
    is_of_one: bool = False
    """The log is that of one known process: prefixes are removed and do not change the origin."""

    label: str = ""
    """Word before the number of the process, where a script uses another one than "rank"."""

    def parse(self, raw: str, of_file: Origin) -> ParsedLine:
        """Return `raw` without its prefixes; `of_file` is the origin of lines that have none."""
        text = _ANSI.sub("", raw[:LONGEST])
        origin = of_file
        if text.startswith("{") and (found := _JSON_LINE.match(text) or _JSON_ERROR.match(text)):
            by = _JSON_RANK.match(text)
            origin = origin if by is None or self.is_of_one else replace(origin, rank=int(by["rank"]))
            level = found.groupdict().get("level")
            text = (f"{level.upper()}: " if level else "") + _unquoted(found["text"])
        for count in range(_PEELED):
            found = self._prefix(text, is_first=count == 0)
            if found is None:
                break
            origin = origin if self.is_of_one else _joined(origin, found)
            text = text[found.end() :]
        time = parse_time(text)
        if self.is_of_one:
            return ParsedLine(of_file, time, text)
        if origin.rank is None and (by := _WRITTEN_BY.search(text[:200])):
            origin = replace(origin, rank=int(by["rank"] or by["tp"]))
        elif origin.rank is None and (by := self._label(text)):
            origin = replace(origin, rank=int(by["rank"]))
        if found := _NCCL.match(text) or _NCCL.search(text[:300]):
            origin = replace(origin, host=origin.host or found["host"])
        return ParsedLine(origin, time, text)

    def _label(self, text: str) -> re.Match[str] | None:
        if found := _BEGINS_WITH.match(text) or _KEY_RANK.match(text) or _JSON_RANK.match(text):
            return found
        found = _other_label(text) if self.label else None
        return found if found and found["word"] == self.label else None

    def _prefix(self, text: str, *, is_first: bool) -> re.Match[str] | None:
        for each in _PREFIXES:
            if found := each.match(text):
                return found
        if not is_first:
            return None
        if self.numbered and (found := _NUMBERED.match(text)):
            return found
        if self.srun and (found := _SRUN.match(text)):
            return found
        return _PDSH.match(text) if self.pdsh else None


def _other_label(text: str) -> re.Match[str] | None:
    return _OTHER_LABEL.match(text) or _BRACKETED.match(text) or _UNNAMED.match(text)


def _unquoted(text: str) -> str:
    """Return the value of a JSON string; the text as it is if it is none."""
    try:
        return str(parse_json(text, LONGEST)).rstrip("\n")
    except UntrustedJsonError:
        return text


def learn_prefixes(sample: Iterable[str], *, is_of_one: bool = False) -> LinePrefixes:
    """Return the prefixes that most of the lines of `sample` have."""
    lines = [_ANSI.sub("", line[:LONGEST]) for line in sample if line.strip()]
    if len(lines) < 2:
        return LinePrefixes(is_of_one=is_of_one)

    def most(pattern: re.Pattern[str]) -> bool:
        return sum(1 for line in lines if pattern.match(line)) >= 0.8 * len(lines)

    srun = most(_SRUN)
    pdsh = not srun and most(_PDSH) and _few_hosts(lines)
    found = [int(each["rank"]) for line in lines if (each := _NUMBERED.match(line))]
    numbered = not srun and most(_NUMBERED) and len({*found}) > 1 and max(found) - min(found) < len({*found})
    label = _label_of(lines)
    return LinePrefixes(srun=srun, pdsh=pdsh and not numbered, numbered=numbered,
                        is_of_one=is_of_one, label="" if numbered else label)  # fmt: skip


def _label_of(lines: Iterable[str]) -> str:
    """Return the word that labels lines with the number of their process; "" if no number from 0 on is in several."""
    numbers: dict[str, list[int]] = {}
    for line in lines:
        if found := _other_label(line):
            numbers.setdefault(found["word"], []).append(int(found["rank"]))
    for word, of_word in numbers.items():
        is_interleaved = word.isalpha() or any(after < before for before, after in itertools.pairwise(of_word))
        if len(of_word) >= LEAST_LABELLED and 1 < len({*of_word}) == max(of_word) + 1 and is_interleaved:
            return word
    return ""


def _few_hosts(lines: list[str]) -> bool:
    """Return True if the words before the colon look like hosts: few of them, and no level or exception."""
    hosts = {found["host"] for line in lines if (found := _PDSH.match(line))}
    levels = {"error", "warning", "info", "debug", "note", "traceback", "hint", "fatal"}
    is_word = any(host.lower() in levels or host.endswith(("Error", "Exception", "Warning")) for host in hosts)
    return not is_word and len(hosts) <= max(1, len(lines) // 2)


def _joined(origin: Origin, found: re.Match[str]) -> Origin:
    named = found.groupdict()
    host, rank, local = named.get("host"), named.get("rank"), named.get("local")
    return Origin(
        host or origin.host,
        int(rank) if rank else origin.rank,
        int(local) if local else origin.local,
    )


def parse_time(text: str) -> LogTime | None:
    """Return the time near the beginning of a line."""
    head = text[:80]
    for zone, pattern in _TIMES:
        if (found := pattern.search(head)) and (seconds := _seconds(found)) is not None:
            return LogTime(zone, seconds)
    return None


def _seconds(found: re.Match[str]) -> float | None:
    named = found.groupdict()
    month = _MONTHS.index(named["name"]) + 1 if named.get("name") else int(named["month"])
    try:
        day = _LEAP_YEAR.replace(month=month, day=int(named["day"]))
        time = day.replace(hour=int(named["h"]), minute=int(named["m"]), second=int(named["s"]))
    except ValueError:
        return None
    value = (time - _LEAP_YEAR).total_seconds() + float(f"0.{named.get('f') or 0}")
    if named.get("sign"):
        offset = int(named["oh"]) * 3600 + int(named["om"]) * 60
        value += -offset if named["sign"] == "+" else offset
    return value


_RANK_NAMES = (
    re.compile(r"(?:^|[/_.-])rank[_-]?(?P<rank>\d{1,7})(?:[/_.-]|$)", re.IGNORECASE),
    re.compile(r"/attempt_\d{1,4}/(?P<local>\d{1,4})/(?:stdout|stderr|error)\.\w{1,5}$"),
    re.compile(r"(?:^|/)(?P<rank>\d{1,7})\.(?:out|err|log|txt|stdout|stderr)(?:\.gz)?$"),
    re.compile(r"(?:^|[/_.-])task[_-]?(?P<rank>\d{1,7})(?:[/_.-]|$)"),
)
_NUMBER_NAME = _RANK_NAMES[2]
_HOST_NAMES = (
    re.compile(r"(?:^|/)(?P<host>[A-Za-z][\w-]{0,60}?\d{1,5})/(?:logs/)?(?:rank[_-]?)?\d{1,7}(?:/|\.)"),
    re.compile(r"(?:^|/)(?P<host>[A-Za-z][\w-]{0,60}?\d{1,5})/launcher\.(?:out|err)(?:\.gz)?$"),
    re.compile(r"(?:^|[/_.])(?P<host>(?:node|host|gpu|worker|n)-?\d{1,5})(?:[/_.]|$)"),
)
_NO_HOST = re.compile(r"(?:rank|attempt|task|local|step|run|job|log)[_-]?\d{0,7}", re.IGNORECASE)


def is_number(name: str) -> bool:
    """Return True for the path of a file whose name is a number: that of a rank only beside other ones."""
    return _NUMBER_NAME.search(name) is not None


def origin_of_name(name: str) -> Origin:
    """Return the rank and the host that the path of a log file names."""
    rank = next((found for pattern in _RANK_NAMES if (found := pattern.search(name))), None)
    hosts = (found for pattern in _HOST_NAMES if (found := pattern.search(name)))
    host = next((found["host"] for found in hosts if not _NO_HOST.fullmatch(found["host"])), None)
    named = rank.groupdict() if rank else {}
    number, local = named.get("rank"), named.get("local")
    return Origin(host, int(number) if number else None, int(local) if local else None)
