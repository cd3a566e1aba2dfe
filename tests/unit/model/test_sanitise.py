"""Text with control sequences: values are shown as escapes, output of ranks keeps its colours alone."""

from __future__ import annotations

import pytest

from pylaunch.model.text.sanitise import Pieces, rank_output, visible, visible_line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]0;never ended", "]0;never ended"),
        ("\x9b2Jtext\x9d0;title\x9c.", "text."),
        ("\x1b[2J\x1b[1;1Htext\x1b(0", "text"),
        ("bell\x07 shift\x0e\x0f nul\x00 back\b", "bell shift nul back"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\x1b[>4;2mkeys", "keys"),
    ],
)
def test_output_of_ranks(written: str, shown: str) -> None:
    assert rank_output(written) == shown


def test_control_characters_in_a_value_are_shown_as_escapes() -> None:
    assert visible_line("rm\x1b[8m -rf\n/ \x85\udcff") == "rm\\x1b[8m -rf\\n/ \\x85\\xff"
    assert visible("two\nlines\tand a tab") == "two\nlines\tand a tab"


def test_a_sequence_over_two_pieces_is_still_one() -> None:
    pieces = Pieces()
    assert pieces.joined("0.out", "50%\x1b[") == "50%"
    assert pieces.joined("1.out", "2Kother rank\n") == "2Kother rank\n"
    assert rank_output(pieces.joined("0.out", "2Kdone")) == "done"
