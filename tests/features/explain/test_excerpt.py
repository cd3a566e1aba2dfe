"""A text that is cut keeps its end, from the beginning of a line."""

from pylaunch.features.explain.work import TextTail

LINES = "".join(f"step {number} loss={number / 7:.6f}\n" for number in range(1000))


def tail_of(text: str, limit: int, piece: int = 100) -> TextTail:
    tail = TextTail(limit)
    for start in range(0, len(text), piece):
        tail.add(text[start : start + piece])
    return tail


def test_a_short_text_is_whole() -> None:
    tail = tail_of(LINES, len(LINES))
    assert tail.text == LINES


def test_the_end_of_a_long_text_begins_with_a_line() -> None:
    tail = tail_of(LINES, 500)
    assert tail.text.startswith("step ")
    assert LINES.endswith(tail.text)
    assert len(tail.text) <= 500


def test_the_end_of_a_line_that_is_longer_than_the_limit_is_kept() -> None:
    assert tail_of("x" * 900, 500).text == "x" * 500
