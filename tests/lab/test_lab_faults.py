"""Every fault is felt, is seen by `status` where it can be, and is gone when it is undone."""

import socket
from collections.abc import Callable

import pytest

from lab import status
from lab.lab import Lab
from lab.node_faults.faults import inject
from lab.node_faults.resource_faults import LittleMemory
from lab.nodes.node import LabNode
from pylaunch.errors import LabError


@pytest.fixture(scope="module")
def pair(fresh_lab: Callable[..., Lab]) -> Lab:
    return fresh_lab(2)


@pytest.fixture
def node(pair: Lab) -> LabNode:
    assert ssh_answers(pair["n2"]), "the story before this one must have left the node whole"
    return pair["n2"]


def ssh_answers(node: LabNode, within_s: float = 60.0) -> bool:
    """sshd answers, however busy this machine is."""
    try:
        with socket.create_connection((node.address, 22), timeout=within_s) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def is_silent(node: LabNode) -> bool:
    return not ssh_answers(node, within_s=1.0)


def state(lab: Lab, node: LabNode) -> tuple[str, str]:
    found = next(each for each in status.look(lab.spec.name) if each.name == node.name)
    return found.state, found.link


def test_a_node_with_little_memory_loses_the_process_that_takes_too_much(node: LabNode) -> None:
    greedy = ("python3", "-c", "x = bytearray(300 << 20); x[::4096] = x[::4096]; print(len(x))")
    try:
        with inject(node, LittleMemory(64 << 20)):
            taken = node.run(
                "systemd-run", "--quiet", "--wait", "--collect", "--property=OOMPolicy=continue", *greedy, check=False
            )
    except LabError as refused:
        pytest.skip(str(refused))
    assert not taken.ok
    assert node.run(*greedy).ok


def test_a_killed_node_is_off_and_boots_again_with_its_disk(pair: Lab, node: LabNode) -> None:
    node.write("/root/kept", "still here")
    with node.kill():
        assert is_silent(node)
        assert state(pair, node)[0] == "off"
        assert node.cgroup.processes() == []
    assert ssh_answers(node)
    assert node.read("/root/kept") == "still here"


def test_faults_are_there_on_the_command_line_with_their_undo(pair: Lab, node: LabNode) -> None:
    where = ("--name", pair.spec.name)
    for fault in (("cut", "n2"), ("filter", "n2", "22"), ("freeze", "n2"), ("kill", "n2")):
        pair.tool("fault", *fault, *where).checked()
        assert is_silent(node), fault
        pair.tool("fault", *fault, "--undo", *where).checked()
        assert ssh_answers(node), fault


def test_a_node_that_does_not_exist_is_refused(pair: Lab) -> None:
    answer = pair.tool("fault", "cut", "n9", "--name", pair.spec.name)
    assert answer.returncode == 2
    assert "has no node n9: it has n1, n2" in answer.stderr
