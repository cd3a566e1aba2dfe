"""Every fault is felt, is seen by `status` where it can be, and is gone when it is undone."""

import socket
import time
from collections.abc import Callable

import pytest

from lab import status
from lab.lab import Lab
from lab.node_faults.faults import Direction, Isolate, SlowCable, inject
from lab.node_faults.resource_faults import LittleMemory, Stall
from lab.nodes.node import LabNode
from pylaunch.errors import LabError
from pylaunch.transport.process import Completed
from tests.waiting import wait_until

PORT = 29500
PLENTY = 64 << 20
"""Bytes that a cable carries in a fraction of a second; a rate of 8 Mb/s leaves a busy machine a minute."""


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


def reaches(node: LabNode, other: LabNode, port: int, within_s: float = 60.0) -> bool:
    """A connection from `node` to `other` is accepted, however busy this machine is."""
    program = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"
    return node.run("python3", "-c", program, other.address, str(port), str(within_s), check=False).ok


def is_kept_from(node: LabNode, other: LabNode, port: int) -> bool:
    return not reaches(node, other, port, within_s=1.0)


def state(lab: Lab, node: LabNode) -> tuple[str, str]:
    found = next(each for each in status.look(lab.spec.name) if each.name == node.name)
    return found.state, found.link


def test_a_cut_node_is_silent_but_keeps_its_address(pair: Lab, node: LabNode) -> None:
    with node.cut():
        assert is_silent(node)
        assert state(pair, node) == ("running", "cut")
        assert node.address in node.run("ip", "-4", "addr", "show", "host0").stdout
    assert ssh_answers(node)
    assert state(pair, node) == ("running", "up")


def test_an_isolated_node_reaches_the_controller_and_no_other_node(pair: Lab, node: LabNode) -> None:
    other = pair["n1"]
    with node.occupy(PORT), other.occupy(PORT):
        with inject(node, Isolate()):
            assert is_kept_from(other, node, PORT)
            assert is_kept_from(node, other, PORT)
            assert ssh_answers(node)
        wait_until(lambda: reaches(other, node, PORT), "the other node reaches it again")
        wait_until(lambda: reaches(node, other, PORT), "it reaches the other node again")


RECEIVE = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    begun, size = time.monotonic(), 0
    while chunk := connection.recv(1 << 20):
        size += len(chunk)
print(size * 8 / 1e6 / (time.monotonic() - begun))
"""


def received_mbps(node: LabNode, other: LabNode, size: int) -> float:
    """Rate at which `node` receives `size` bytes from `other`."""
    serve = (
        "import socket, sys\n"
        "with socket.create_server(('', 7777)) as listener:\n"
        "    connection, _ = listener.accept()\n"
        "with connection:\n"
        f"    connection.sendall(bytes({size}))\n"
    )
    other.run("systemd-run", "--quiet", "--collect", "/usr/bin/python3", "-c", serve)
    listens = lambda: bool(other.run("ss", "-ltnH", "sport = :7777").stdout)  # noqa: E731 -- used once
    wait_until(listens, "the other node sends")
    return float(node.run("python3", "-c", RECEIVE, other.address, "7777").stdout)


def test_a_slow_cable_limits_what_the_node_receives(pair: Lab, node: LabNode) -> None:
    other = pair["n1"]
    with inject(node, SlowCable(4)):
        assert received_mbps(node, other, 2 << 20) < 6
        assert received_mbps(other, node, PLENTY) > 8
    assert received_mbps(node, other, PLENTY) > 8


def test_who_uses_a_stalled_file_system_waits_in_the_kernel_until_it_is_undone(node: LabNode) -> None:
    asking = "story-asking.service"
    state = f"cut -d ' ' -f 3 /proc/$(systemctl show --property=MainPID --value {asking})/stat"
    with inject(node, Stall("/mnt/story")):
        node.run("systemd-run", "--quiet", "--collect", f"--unit={asking}", "/usr/bin/stat", "/mnt/story")
        wait_until(lambda: node.run("sh", "-c", state, check=False).stdout == "D\n", "it waits in the kernel")
    wait_until(lambda: not node.run("systemctl", "is-active", asking, check=False).ok, "it has ended")
    assert node.run("mountpoint", "/mnt/story", check=False).returncode != 0


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


@pytest.mark.parametrize(
    ("direction", "comes_in", "goes_out"),
    [(Direction.IN, False, True), (Direction.OUT, True, False), (Direction.BOTH, False, False)],
)
def test_a_filtered_port_is_closed_in_the_asked_direction_only(
    pair: Lab, node: LabNode, direction: Direction, comes_in: bool, goes_out: bool
) -> None:
    other = pair["n1"]
    with node.occupy(PORT), other.occupy(PORT):
        with node.filter(PORT, direction):
            assert (reaches if comes_in else is_kept_from)(other, node, PORT)
            assert (reaches if goes_out else is_kept_from)(node, other, PORT)
            assert ssh_answers(node), "other ports are left alone"
        assert reaches(other, node, PORT)
        assert reaches(node, other, PORT)


def test_a_filter_outlives_a_flushed_firewall_in_the_node(pair: Lab, node: LabNode) -> None:
    with node.occupy(PORT), node.filter(PORT):
        node.run("nft", "flush", "ruleset")
        assert is_kept_from(pair["n1"], node, PORT)


def test_a_killed_node_is_off_and_boots_again_with_its_disk(pair: Lab, node: LabNode) -> None:
    node.write("/root/kept", "still here")
    with node.kill():
        assert is_silent(node)
        assert state(pair, node)[0] == "off"
        assert node.cgroup.processes() == []
    assert ssh_answers(node)
    assert node.read("/root/kept") == "still here"


def test_a_frozen_node_accepts_connections_and_answers_nothing(pair: Lab, node: LabNode) -> None:
    with node.freeze():
        with socket.create_connection((node.address, 22), timeout=60) as connection:
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(4)
        assert state(pair, node)[0] == "frozen"
    assert ssh_answers(node)


def test_a_full_directory_takes_nothing_and_shows_what_it_had_afterwards(node: LabNode) -> None:
    node.write("/var/tmp/before", "")
    with node.fill():
        refused = node.run("dd", "if=/dev/zero", "of=/var/tmp/more", "bs=1k", "count=1", check=False)
        assert "No space left on device" in refused.stderr
    node.write("/var/tmp/more", "there is room again")
    assert node.run("ls", "/var/tmp/before").ok


def test_an_occupied_port_cannot_be_bound(node: LabNode) -> None:
    bind = ("python3", "-c", f"import socket; socket.create_server(('', {PORT}))")
    with node.occupy(PORT):
        assert "Address already in use" in node.run(*bind, check=False).stderr
    assert node.run(*bind).ok


def is_shifted(seconds: float, ask: Callable[[], Completed]) -> bool:
    """The date that `ask` prints is this machine's at some moment of the question, `seconds` away."""
    before = time.time()
    shown = int(ask().stdout) - seconds
    return before - 10 < shown < time.time() + 10


def test_a_shifted_clock_is_seen_by_new_programs_and_over_ssh(pair: Lab, node: LabNode) -> None:
    date = ("date", "+%s")
    over_ssh = ("ssh", "--name", pair.spec.name, node.name, *date)
    with node.shift_clock(-3600):
        assert is_shifted(-3600, lambda: node.run(*date))
        assert is_shifted(-3600, lambda: pair.tool(*over_ssh).checked())
        assert is_shifted(0, lambda: pair["n1"].run(*date))
    assert is_shifted(0, lambda: pair.tool(*over_ssh).checked())
    assert node.run("ls", "/dev/shm").stdout == ""


def test_a_node_with_a_shifted_clock_can_be_killed_and_booted(node: LabNode) -> None:
    node.shift_clock(60)
    with node.kill():
        pass
    assert ssh_answers(node)
    assert is_shifted(0, lambda: node.run("date", "+%s"))


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
