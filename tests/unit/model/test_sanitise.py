"""Text with control sequences: values are shown as escapes, output of ranks keeps its colours alone."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.model.text.sanitise import RESET, Pieces, rank_output, visible, visible_line


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


COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
BIDIRECTIONAL = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
CONTROLS = st.sampled_from([
    "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x9b", "\x9d", "\x90", "\x07", "\x1b\\", "\x9c", "\x0e", "\x0f", "\x00", "\r",
    "\x1b[31m", "\x1b[2J", "\x1b[?1049h", "\x1b[>4;2m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b]52;c;",
    "\u202e", "\u2066", "\u2028", "\udcff", "\U000e0041", "m", "0;31m", "\n", "\t", "\b",
])  # fmt: skip
HOSTILE = st.lists(st.one_of(CONTROLS, st.text(max_size=6)), max_size=20).map("".join)


def obeyed(text: str) -> list[str]:
    """Return the control characters in `text`, except tabs and newlines."""
    return [
        character
        for character in text
        if (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character not in "\n\t")
        or unicodedata.bidirectional(character) in BIDIRECTIONAL
    ]


@given(HOSTILE)
def test_of_a_value_nothing_is_obeyed(text: str) -> None:
    assert obeyed(visible(text)) == []
    assert obeyed(visible_line(text)) == []
    assert "\n" not in visible_line(text)


@given(HOSTILE)
def test_of_a_rank_only_colours_are_obeyed_and_they_end_with_its_line(text: str) -> None:
    shown = rank_output(text)
    assert obeyed(COLOUR.sub("", shown)) == []
    assert obeyed(rank_output(text, colours=False)) == []
    if COLOUR.search(shown):
        assert shown.endswith(RESET)


@given(HOSTILE)
def test_sanitised_text_does_not_change_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs", "M"])))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert visible_line(text) == text
    assert rank_output(text) == text


@given(HOSTILE, st.data())
def test_pieces_hold_back_nothing_but_the_beginning_of_a_sequence(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    pieces = Pieces()
    shown = "".join(pieces.joined("3.out", part) for part in parts)
    assert text.startswith(shown)
    assert re.fullmatch(r"(\x1b(\[[0-?]*)?[ -/]*|\x9b[0-?]*[ -/]*)?", text.removeprefix(shown))
