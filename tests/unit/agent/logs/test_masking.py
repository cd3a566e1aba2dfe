from __future__ import annotations

from pathlib import Path

from pylaunch.agent.logs import masking
from pylaunch.agent.logs.masking import Mask

SECRET = "hunter2hunter2"


def test_a_secret_is_hidden_and_nothing_moves() -> None:
    mask = Mask([SECRET])
    assert mask.hide(b"key=hunter2hunter2;hunter2hunter2\n") == b"key=**************;**************\n"
    assert mask.hide_in("é hunter2hunter2") == "é **************"


def test_each_line_of_a_secret_is_one_and_short_ones_are_left() -> None:
    mask = Mask(["-----BEGIN KEY-----\nMIIEvQIBADAN\nshort\n", "1234567"])
    assert mask.hide(b"MIIEvQIBADAN short 1234567") == b"************ short 1234567"


def test_of_two_secrets_that_begin_alike_the_longer_one_is_hidden_whole() -> None:
    assert Mask(["abcdefgh", "abcdefghijkl"]).hide(b"abcdefghijkl abcdefgh") == b"************ ********"


def test_a_file_is_scrubbed_in_place_also_across_blocks_and_behind_holes(tmp_path: Path) -> None:
    log = tmp_path / "0.out"
    block = masking.BLOCK
    with log.open("wb") as file:
        file.write(SECRET.encode())
        file.seek(block - 5)
        file.write(SECRET.encode())
        file.seek(3 * block)  # A hole, as a bounded log has.
        file.write(b"x" * 100 + SECRET.encode() + b"end")
    size, blocks = log.stat().st_size, log.stat().st_blocks
    Mask([SECRET]).scrub(str(log))
    assert SECRET.encode() not in log.read_bytes()
    assert log.read_bytes().endswith(b"x" + b"*" * len(SECRET) + b"end")
    assert log.stat().st_size == size
    assert log.stat().st_blocks <= blocks + 16


def test_without_secrets_nothing_is_touched(tmp_path: Path) -> None:
    Mask([]).scrub(str(tmp_path / "not there"))
    assert Mask([]).hide(b"text") == b"text"
