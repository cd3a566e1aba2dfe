"""Lines of one form that several ranks or hosts print: the words are equal, the values may differ. Pure."""

import re
from collections.abc import Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.features.explain.judgement.errors.error_form import error_form
from pylaunch.features.explain.judgement.indications.form import LogExcerpt
from pylaunch.model.text.sanitise import visible_line
from pylaunch.verdict.logs.scan import KeptLine, LogScan

MOST_WORDS = 48
LONGEST_SHOWN = 100
_TIME = re.compile(
    r"[\[(<]?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d/\d\d/\d{4}|\d\d:\d\d:\d\d|[IWEFDC]\d{4}(?!\S)|1[6-9]\d{8}\.\d)\S{0,24}"
)
_HEAD = re.compile(
    r"(?:(?:[\[(<]?(?:\d[\d:.,/TZ+-]{3,32}|[IWEFDC]\d{4}|DEBUG|INFO|[Ii]nfo|I|WARN(?:ING)?)[\])>]?:?|[|-])"
    r"[ \t]{1,12}){1,6}"
)
"""Times and levels at the beginning of a line."""

_NO_LINE = re.compile(r'\s{0,12}File "|Traceback|frame #|\s{0,40}[\^~]{2}|\+{1,3} |.{0,200}\bNCCL (?:INFO|WARN)\b')
_MARKS = "[](){}<>,;:.|\"'"

Shape = tuple[str, ...]
"""Words of a line, with a mark for each value: a mark ends with a space, a word cannot."""


@dataclass(frozen=True)
class PrintedLine:
    """Line with its values and the word before each."""

    line: KeptLine
    values: tuple[tuple[str, str], ...]

    @property
    def shown(self) -> str:
        """Line without its time and level."""
        text = self.line.text
        found = _HEAD.match(text)
        return repr(visible_line(text[found.end() if found else 0 :])[:LONGEST_SHOWN])

    @property
    def excerpt(self) -> LogExcerpt:
        """Line as evidence."""
        line = self.line
        return LogExcerpt(line.origin, line.time, line.file, line.line, (line.text,), {})


@dataclass(frozen=True)
class Party:
    """Rank, or a host whose lines show none."""

    name: str
    rank: int | None = None


Shapes = dict[Shape, dict[Party, list[PrintedLine]]]


def party_of(line: KeptLine) -> Party | None:
    """Return who wrote a line."""
    origin = line.origin
    if origin.rank is not None:
        return Party(f"rank {origin.rank}", origin.rank)
    name = origin.host or (None if origin.local is None else f"local rank {origin.local}")
    return None if name is None else Party(name)


def shapes_of(scans: Sequence[LogScan]) -> Shapes:
    """Return the lines that report no error, by their form and by who wrote them, in the order of the logs."""
    found: Shapes = {}
    for line in (line for scan in scans for line in scan.sampled):
        if (party := party_of(line)) is None or _NO_LINE.match(line.text) or error_form(line.text) is not None:
            continue
        shape, values = _parts(line.text)
        found.setdefault(shape, {}).setdefault(party, []).append(PrintedLine(line, values))
    for shape, parties in found.items():
        if any(each.rank is not None for each in parties):
            found[shape] = {each: lines for each, lines in parties.items() if each.rank is not None}
    return found


def _parts(text: str) -> tuple[Shape, tuple[tuple[str, str], ...]]:
    shape, values, before = [], [], ""
    for word in text.replace(',"', ', "').replace('":', '": ').split()[:MOST_WORDS]:
        name, is_set, value = word.partition("=")
        if _TIME.match(word):
            shape.append("@")
        elif is_set and name and value:
            before = name.strip(_MARKS + "-").lower()
            shape.append(f"{name}= ")
            values.append((before, value.strip(_MARKS)))
        elif any(each.isdigit() for each in word):
            shape.append("# ")
            values.append((before, word.strip(_MARKS)))
        else:
            before = word.strip(_MARKS + "-=").lower() or before
            shape.append(word)
    return tuple(shape), tuple(values)
