"""`is_address` distinguishes addresses from names of hosts."""

import pytest

from pylaunch.model.hostset import is_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10.0.0.1", True), ("fd00::1", True), ("fe80::1%eth0", True), ("gpu01", False), ("10.0.0", False), ("", False)],
)
def test_addresses(text: str, expected: bool) -> None:
    assert is_address(text) is expected
