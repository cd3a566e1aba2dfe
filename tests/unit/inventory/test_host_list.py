"""Hosts that are named on the command line."""

from pathlib import Path

import pytest

from pylaunch.inventory.host_list import host_list, is_host_list


def test_a_file_with_a_comma_in_its_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_host_list(Path("a,b"))

    (tmp_path / "a,b").touch()

    assert not is_host_list(Path("a,b"))
    assert not is_host_list(Path("inventories/a,b"))


@pytest.mark.parametrize("hosts", ["", "gpu[2-1]", "-oProxyCommand=reboot", "root@gpu01", "a;b"])
def test_an_invalid_host_set_is_refused(hosts: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        host_list(hosts)
