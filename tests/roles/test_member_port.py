"""A port more that members alone may open, and this machine, which is none of them."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.roles.conftest import Provisioned

PORT = 8080
N1 = ("--roles", "firewall", "--limit", "n1")


def answers_us(address: str) -> bool:
    """This machine can connect."""
    try:
        socket.create_connection((address, PORT), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def with_port(provisioned: Provisioned, tmp_path: Path) -> Iterator[Path]:
    """An inventory that gives the port to members; something listens there on n1."""
    inventory = tmp_path / "cluster.ini"
    settings = f"[cluster:vars]\nfirewall_enabled=true\nfirewall_member_ports=['29400-29599', '{PORT}']\n"
    inventory.write_text(f"{provisioned.lab.inventory.read_text()}\n{settings}")
    (tmp_path / ".pylaunch").symlink_to(provisioned.lab.inventory.parent / ".pylaunch")
    with provisioned.lab["n1"].occupy(PORT):
        yield inventory
        taken_back = provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), *N1)
        assert taken_back.ok, taken_back.stderr


def test_a_port_more_is_closed_to_strangers_and_open_to_members_until_it_is_given_back(
    provisioned: Provisioned, with_port: Path
) -> None:
    address = provisioned.lab["n1"].address
    assert answers_us(address)
    closed = provisioned.lab.pylaunch("provision", "-i", str(with_port), *N1)
    assert closed.ok, closed.stderr
    assert not answers_us(address)
    provisioned.lab["n2"].run("bash", "-c", f"exec 3<>/dev/tcp/{address}/{PORT}")
    opened = provisioned.lab.pylaunch("provision", "-i", str(provisioned.lab.inventory), *N1)
    assert opened.ok, opened.stderr
    assert answers_us(address)
