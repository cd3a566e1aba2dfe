"""Place of the root directory in a SIF: that of apptainer, those that are not mounted, and damaged files."""

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.agent.containers.sif import SifError, squashfs_offset
from tests.starts.containers import SIF_ROOT, sif_of

PLACE = 36864
SIF = sif_of(b"hsqs")
ENTRIES, TABLE = 88, 96
FIRST = 4096


def changed(form: str, place: int, *values: object) -> io.BytesIO:
    content = bytearray(SIF)
    struct.pack_into(form, content, place, *values)
    return io.BytesIO(content)


def test_the_root_directory_is_the_primary_system_partition() -> None:
    assert squashfs_offset(io.BytesIO(SIF)) == PLACE


@pytest.mark.parametrize(
    ("form", "place", "values", "error"),
    [
        ("2s", 42, (b"02",), "version '02' of the format, not '01'"),
        ("<q", ENTRIES, (4097,), "4097 descriptors, more than 4096"),
        ("<q", ENTRIES, (-1,), "-1 descriptors"),
        ("<q", ENTRIES, (0,), "0 primary system partitions"),
        ("<q", TABLE, (-585,), "outside of the file"),
        ("<q", TABLE, (PLACE,), "outside of the file, which has 36868: is it whole?"),
        ("<i", SIF_ROOT, (0x4007,), "0 primary system partitions, not 1"),
        ("<?", SIF_ROOT + 4, (False,), "0 primary system partitions, not 1"),
        ("<i", SIF_ROOT + 205, (3,), "0 primary system partitions, not 1"),
        ("<585s", FIRST, (SIF[SIF_ROOT : SIF_ROOT + 585],), "2 primary system partitions, not 1"),
        ("<q", SIF_ROOT + 17, (-4,), "bytes -4 to 0 are outside of the file"),
        ("<q", SIF_ROOT + 17, (PLACE + 1,), "outside of the file"),
        ("<q", SIF_ROOT + 25, (1 << 62,), "outside of the file"),
        ("<i", SIF_ROOT + 201, (9,), "its root directory is file system 9, not a squashfs"),
    ],
)
def test_a_damaged_file_is_refused(form: str, place: int, values: tuple[object, ...], error: str) -> None:
    with pytest.raises(SifError, match=error):
        squashfs_offset(changed(form, place, *values))


@pytest.mark.parametrize(
    ("file_system", "name", "hint"),
    [(2, "ext3", "apptainer build --sandbox"), (5, "an encrypted squashfs", "without --encrypt")],
)
def test_a_root_directory_that_is_not_mounted_has_a_next_step(file_system: int, name: str, hint: str) -> None:
    with pytest.raises(SifError, match=f"its root directory is {name}, not a squashfs") as refused:
        squashfs_offset(changed("<i", SIF_ROOT + 201, file_system))
    assert hint in refused.value.hint


@given(
    st.lists(st.tuples(st.one_of(st.integers(0, 127), st.integers(FIRST, FIRST + 3 * 585)), st.binary(max_size=8))),
    st.integers(0, len(SIF)),
)
def test_any_bytes_give_a_place_in_the_file_or_a_refusal(changes: list[tuple[int, bytes]], length: int) -> None:
    content = bytearray(SIF)
    for place, values in changes:
        content[place : place + len(values)] = values
    for whole in (bytes(content), bytes(content[:length])):
        with contextlib.suppress(SifError):
            assert 0 <= squashfs_offset(io.BytesIO(whole)) <= len(whole)
