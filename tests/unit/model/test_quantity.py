import pytest

from pylaunch.model.text.quantity import parse_size, shown_size, size


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("2GiB", 2 << 30), ("64M", 64 << 20), ("500MB", 500_000_000), ("1.5 kib", 1536), ("7b", 7)],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "2GiBs", "1e9", "2 EB"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (12_345, "12 KiB"), (10_240, "10 KiB"),
     (1_022_976, "999 KiB"),
     (1_024_000, "1.0 MiB"), (812 << 20, "812 MiB"), (3 << 40, "3.0 TiB")],
)  # fmt: skip
def test_sizes_as_people_read_them(size: int, text: str) -> None:
    assert shown_size(size) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1010, "0.986 KiB"), (2 << 30, "2 GiB"), (1023 << 20, "0.999 GiB"), (1.5 * (1 << 40), "1.5 TiB"),
     (20 << 50, "20 PiB")],
)  # fmt: skip
def test_sizes_that_are_compared_have_three_digits(count: float, text: str) -> None:
    assert size(count) == text
