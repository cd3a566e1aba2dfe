"""Hosts that are named on the command line, and the equivalent file."""

from pathlib import Path

import pytest

from pylaunch.inventory.host_list import command_to_write, host_list, is_host_list


def test_a_file_with_a_comma_in_its_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_host_list(Path("a,b"))

    (tmp_path / "a,b").touch()

    assert not is_host_list(Path("a,b"))
    assert not is_host_list(Path("inventories/a,b"))


@pytest.mark.parametrize(
    ("hosts", "lines"),
    [
        ("gpu[01-04]", "'gpu[01:04]'"),
        ("gpu[01-03,07]", "'gpu[01:03]' gpu07"),
        ("gpu02,gpu01", "gpu02 gpu01"),
        ("10.0.0.[1-2]", "'10.0.0.[1:2]'"),
        ("gpu01:2222,gpu02", "'gpu01 ansible_port=2222' gpu02"),
        ("fd00::1,x", "fd00::1 x"),
    ],
)
def test_the_command_that_writes_the_file_keeps_the_order_of_the_hosts(hosts: str, lines: str) -> None:
    names = [name for name in host_list(hosts).split(",") if name]

    assert command_to_write(names, "cluster.ini") == rf"printf '%s\n' '[cluster]' {lines} > cluster.ini"


@pytest.mark.parametrize("hosts", ["", "gpu[2-1]", "-oProxyCommand=reboot", "root@gpu01", "a;b"])
def test_an_invalid_host_set_is_refused(hosts: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        host_list(hosts)
