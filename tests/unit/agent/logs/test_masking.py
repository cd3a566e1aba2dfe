from __future__ import annotations

from pathlib import Path

from pylaunch.agent.logs import masking
from pylaunch.agent.logs.masking import Mask

SECRET = "hunter2hunter2"


def test_a_secret_is_masked_and_offsets_stay() -> None:
    mask = Mask([SECRET])
    assert mask.hide(b"key=hunter2hunter2;hunter2hunter2\n") == b"key=**************;**************\n"
    assert mask.hide_in("é hunter2hunter2") == "é **************"


def test_each_line_of_a_secret_is_masked_and_short_ones_are_not() -> None:
    mask = Mask(["-----BEGIN KEY-----\nMIIEvQIBADAN\nshort\n", "1234567"])
    assert mask.hide(b"MIIEvQIBADAN short 1234567") == b"************ short 1234567"


def test_of_two_secrets_with_a_common_prefix_the_longer_is_masked_whole() -> None:
    assert Mask(["abcdefgh", "abcdefghijkl"]).hide(b"abcdefghijkl abcdefgh") == b"************ ********"


def test_a_file_is_scrubbed_in_place_across_blocks_and_after_holes(tmp_path: Path) -> None:
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


def test_nothing_is_changed_without_secrets(tmp_path: Path) -> None:
    Mask([]).scrub(str(tmp_path / "not there"))
    assert Mask([]).hide(b"text") == b"text"
