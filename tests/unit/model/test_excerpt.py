"""A text that is cut keeps its beginning and its end, at the ends of lines, and never counts as whole."""

from pylaunch.model.text.excerpt import TextTail, bounded

MARK = "[cut]"
LINES = "".join(f"step {number} loss={number / 7:.6f}\n" for number in range(1000))


def tail_of(text: str, limit: int, piece: int = 100) -> TextTail:
    tail = TextTail(limit)
    for start in range(0, len(text), piece):
        tail.add(text[start : start + piece])
    return tail


def test_a_short_text_is_whole() -> None:
    tail = tail_of(LINES, len(LINES))
    assert (tail.text, tail.is_cut, tail.lines) == (LINES, False, 1000)
    assert bounded(LINES, len(LINES), MARK) == LINES


def test_the_end_of_a_long_text_begins_with_a_line() -> None:
    tail = tail_of(LINES, 500)
    assert tail.text.startswith("step ")
    assert LINES.endswith(tail.text)
    assert len(tail.text) <= 500
    assert tail.is_cut


def test_a_long_text_keeps_both_ends_and_a_mark() -> None:
    text = bounded(LINES, 4000, MARK)
    head, tail = text.split(f"{MARK}\n")
    assert LINES.startswith(head)
    assert LINES.endswith(tail)
    assert head.endswith("\n")
    assert len(text) <= 4000 + len(MARK) + 2
