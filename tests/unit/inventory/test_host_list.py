"""Hosts that are named on the command line."""

from pathlib import Path

import pytest

from pylaunch.inventory.load import host_list, is_host_list


def test_a_file_with_a_comma_in_its_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_host_list(Path("a,b"))

    (tmp_path / "a,b").touch()

    assert not is_host_list(Path("a,b"))
    assert not is_host_list(Path("inventories/a,b"))


def test_an_ipv6_address_needs_no_brackets_and_has_no_zone() -> None:
    assert host_list("[2001:db8::1]:2222,[2001:db8::2]") == "[2001:db8::1]:2222,2001:db8::2,"
    with pytest.raises(ValueError, match="the zone after % names an interface of this machine"):
        host_list("fe80::1%eth0")
