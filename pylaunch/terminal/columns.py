"""Text in aligned columns, in the width that a terminal counts. Pure."""

import re
import textwrap
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "
NARROWEST = 16
"""Columns are not folded below this width."""

_SEQUENCE = re.compile("\x1b\\[[0-9;:]*m")


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the heading and the rows as lines; cells of several words are folded to fit `width`."""
    table = [list(columns), *map(list, rows)]
    widths = [max(cell_len(row[at]) for row in table) for at in range(len(columns))]
    if width is not None:
        _narrow(widths, table, width)
    lines: list[str] = []
    for row in table:
        folded = [_folded(cell, widths[at]) for at, cell in enumerate(row)]
        for level in range(max(map(len, folded))):
            cells = [each[level] if level < len(each) else "" for each in folded]
            lines.append(GAP.join(_padded(cell, widths[at]) for at, cell in enumerate(cells)).rstrip())
    return lines


def cropped(line: str, width: int) -> str:
    """Return `line` without colours, cut to `width` cells."""
    plain = _SEQUENCE.sub("", line)
    return plain if cell_len(plain) <= width else set_cell_size(plain, max(0, width - 1)) + "…"


def _narrow(widths: list[int], table: Sequence[Sequence[str]], width: int) -> None:
    """Reduce the widest columns to fit `width`, down to their longest words."""
    floors = [
        max(NARROWEST, *(cell_len(word) for row in table for word in row[at].split(" "))) for at in range(len(widths))
    ]
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        foldable = [at for at in range(len(widths)) if widths[at] > floors[at]]
        if not foldable:
            return
        widths[max(foldable, key=lambda at: widths[at])] -= 1


def _folded(cell: str, width: int) -> list[str]:
    if cell_len(cell) <= width:
        return [cell]
    return textwrap.wrap(cell, width, break_long_words=False, break_on_hyphens=False) or [cell]


def _padded(cell: str, width: int) -> str:
    return cell + " " * max(0, width - cell_len(cell))
