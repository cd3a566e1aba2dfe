"""Devices that a spare holds for its run."""

import json
import subprocess

import pytest

from pylaunch.agent.shared import leases
from pylaunch.base.layout import default_root
from tests.agent.controller import Node
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the answer of a holder on a busy machine."""
    monkeypatch.setattr(leases, "ANSWER_S", 60.0)


def hold(node: Node) -> subprocess.Popen[bytes]:
    return subprocess.Popen(node.words("hold", "--run", "r1"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def lease_of(node: Node, index: int) -> str:
    return leases.device_name(index, str(node.root), default_root())


def test_devices_are_held_until_the_controller_disconnects_and_the_holder_is_named(node: Node) -> None:
    holding = hold(node)
    assert holding.stdin is not None
    assert holding.stdout is not None
    holding.stdin.write(b'{"devices": [900, 901]}\n')
    holding.stdin.flush()
    assert json.loads(holding.stdout.readline()) == {"held": True}
    kept = leases.holder(lease_of(node, 901))
    assert kept is not None
    assert (kept.run, kept.devices, kept.pid, kept.is_spare) == ("r1", [900, 901], holding.pid, True)
    holding.stdin.close()
    assert holding.wait(60) == 0
    assert leases.holder(lease_of(node, 900)) is None


def test_one_taken_device_is_reported_and_none_is_held(node: Node) -> None:
    taken = leases.take(lease_of(node, 901))
    assert not isinstance(taken, leases.Holder)
    with taken:
        stdout, _ = hold(node).communicate(b'{"devices": [900, 901]}\n', timeout=60)
    (reason,) = json.loads(stdout)["taken"]
    assert reason.startswith("device 901 is leased to pid ")
    assert wait_until(lambda: leases.holder(lease_of(node, 900)) is None, "device 900 is free")


def test_a_controller_that_disconnects_before_its_request_is_no_error(node: Node) -> None:
    holding = hold(node)
    assert holding.communicate(timeout=60)[0] == b""
    assert holding.returncode == 0
