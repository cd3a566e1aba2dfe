"""Make text of hosts, users and ranks safe to show: remove everything that a terminal or a browser's text obeys. Pure.

`visible` is for values in our own sentences: every control character is shown as its escape (`\\x1b`), so that two
different values never look alike. `rank_output` is for what ranks write: colours (SGR) are kept, other escape sequences
and control characters are dropped. Both show bidirectional controls, line separators and invisible tags as escapes.
`cli.console` calls them for terminals and `report` for HTML, before Jinja2 escapes it. Other files and pipes get text
as it is.
"""

import re
from collections.abc import Hashable

from pylaunch.base.dataclass import dataclass, field

RESET = "\x1b[0m"

_CONTROL = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff"  # bytes that are not UTF-8
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # interlinear annotation, tags
    "]"
)
_DROPPED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LONGEST_SEQUENCE = 4096
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]{0,256}[ -/]{0,16}[@-~]"  # CSI
    r"|\x9b[0-?]{0,256}[ -/]{0,16}[@-~]"  # CSI, as one character
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]{{0,{_LONGEST_SEQUENCE}}}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,16}[0-~]"  # character sets and the like
    r"|\x1b[0-OQ-WYZ\\`-~]"  # two characters
)
"""A whole escape sequence, in one line. One that its line does not end loses only what introduces it."""

_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,256}m")
_UNFINISHED = re.compile(r"(?:\x1b(?:\[[0-?]{0,256}[ -/]{0,16}|[ -/]{1,16})?|\x9b[0-?]{0,256}[ -/]{0,16})\Z")
_LONGEST_UNFINISHED = 300


def visible(text: str) -> str:
    """`text` with every control character shown as an escape. Newlines and tabs stay: sentences have several lines."""
    return _CONTROL.sub(_escaped, text)


def visible_line(value: str) -> str:
    """The same for a value that must stay in its line: a cell of a table, a name."""
    return visible(value).replace("\n", "\\n").replace("\t", "\\t")


def rank_output(line: str, *, colours: bool = True) -> str:
    """A line of a rank with its colours, which end with the line, or without any."""
    if _CONTROL.search(line) is None:
        return line
    kept: list[str] = []
    end = 0
    is_coloured = False
    for sequence in _SEQUENCE.finditer(line):
        kept.append(_plain(line[end : sequence.start()]))
        end = sequence.end()
        if colours and _COLOUR.fullmatch(sequence[0]):
            kept.append(sequence[0])
            is_coloured = True
    kept.append(_plain(line[end:]))
    return "".join(kept) + (RESET if is_coloured else "")


def _plain(text: str) -> str:
    return _CONTROL.sub(_escaped, _DROPPED.sub("", text))


def _escaped(character: re.Match[str]) -> str:
    code = ord(character[0])
    if 0xDC80 <= code <= 0xDCFF:  # A byte that Python could not decode.
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


@dataclass
class Pieces:
    """Streams that arrive in pieces: a colour or cursor sequence that a piece cuts waits for its rest."""

    _held: dict[Hashable, str] = field(default_factory=dict)

    def joined(self, stream: Hashable, piece: str) -> str:
        """Return the text of `stream` to show now. Only a piece that ends within a line can cut a sequence."""
        text = self._held.pop(stream, "") + piece
        if (cut := _UNFINISHED.search(text, max(0, len(text) - _LONGEST_UNFINISHED))) is None:
            return text
        self._held[stream] = text[cut.start() :]
        return text[: cut.start()]
