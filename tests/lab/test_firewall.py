"""The role firewall: who may open which port, and that nobody is ever locked out. n3 is a machine of nobody's."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.node_faults.faults import Injected
from lab.nodes.node import LabNode
from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from pylaunch.transport import process
from tests.lab.firewall import OTHER_PORT, RANK_PORT, RENDEZVOUS_PORT, WITHIN_S, Guarded, echo, is_armed
from tests.waiting import wait_until

MEMBERS = ("n1", "n2")
CONFIRMED = "/var/lib/pylaunch/firewall/confirmed.nft"
FOREIGN = """\
table ip docker {
	chain DOCKER {
		ip daddr 172.17.0.2 tcp dport 80 accept
	}

	chain input {
		type filter hook input priority filter; policy accept;
		jump DOCKER
	}
}
"""

LOCKS_OUT = {"firewall_ssh_ports": [2222], "firewall_member_ports": ["1-65535"]}
"""Wrong settings that go unnoticed: established connections survive."""


def table(node: LabNode) -> str:
    """Our table as the kernel has it, with the handles of its rules."""
    return node.run("nft", "--handle", "list", "table", "inet", "pylaunch").stdout


def rules(node: LabNode) -> list[str]:
    """The same without the members."""
    return [line for line in table(node).splitlines() if "elements" not in line and "10.213." not in line]


def is_echoed(connection: socket.socket) -> bool:
    connection.sendall(b"hello\n")
    try:
        return connection.recv(6) == b"hello\n"
    except TimeoutError:
        return False


@pytest.fixture(scope="module")
def guarded(fresh_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """n1 and n2 provisioned; meanwhile this machine, which is no member, was connected to n1."""
    directory = tmp_path_factory.mktemp("firewall")
    lab = fresh_lab(3, inventory=directory / "all.ini")
    made = Guarded(lab, directory / "cluster.ini")
    made.members(MEMBERS)
    made.settings()
    lab["n1"].run("nft", "-f", "-", stdin=FOREIGN.encode())
    for port in (RANK_PORT, RENDEZVOUS_PORT, OTHER_PORT):
        echo(lab["n1"], port)
    with socket.create_connection((lab["n1"].address, RANK_PORT), timeout=60) as connection:
        assert is_echoed(connection)
        first = made.provision()
        assert first.ok, first.stderr
        assert is_echoed(connection), "a connection from before was cut"
    return made


def test_members_may_open_the_ports_of_ranks(guarded: Guarded) -> None:
    assert guarded.knock("n2", "n1", RANK_PORT) == "open"
    assert guarded.knock("n2", "n1", RENDEZVOUS_PORT) == "open"
    assert guarded.knock("n1", "n1", RANK_PORT) == "open"


def test_strangers_are_refused_at_once_and_on_those_ports_alone(guarded: Guarded) -> None:
    assert guarded.knock("n3", "n1", RANK_PORT) == "refused"
    assert guarded.knock("n3", "n1", RENDEZVOUS_PORT) == "refused"
    assert guarded.knock("n3", "n1", OTHER_PORT) == "open"
    assert guarded.knock("n3", "n1", 22) == "open"


def test_what_a_member_opens_to_a_stranger_is_answered(guarded: Guarded) -> None:
    echo(guarded.lab["n3"], RANK_PORT)
    assert guarded.knock("n1", "n3", RANK_PORT) == "open"


def test_the_tables_of_others_are_as_they_were(guarded: Guarded) -> None:
    assert guarded.lab["n1"].run("nft", "list", "table", "ip", "docker").stdout == FOREIGN


def test_nothing_is_tracked_because_of_it(guarded: Guarded) -> None:
    assert "ct state" not in table(guarded.lab["n2"])


def test_a_second_run_changes_nothing(guarded: Guarded) -> None:
    before = {name: table(guarded.lab[name]) for name in MEMBERS}
    assert guarded.provision().stderr.startswith("2 hosts: nothing to change")
    assert {name: table(guarded.lab[name]) for name in MEMBERS} == before


@pytest.fixture
def as_ml(guarded: Guarded) -> Iterator[Guarded]:
    """The same, but for who logs in: a user with sudo."""
    text = guarded.inventory.read_text()
    guarded.lab["n1"].run("sh", "-c", "cp -r /root/.ssh /home/ml/ && chown -R ml /home/ml/.ssh")
    guarded.inventory.write_text(text.replace("ansible_user=root", "ansible_user=ml"))
    yield guarded
    guarded.inventory.write_text(text)


def test_a_user_with_sudo_sees_the_same(as_ml: Guarded) -> None:
    assert as_ml.provision("--limit", "n1").stderr.startswith("1 host: nothing to change")


def test_where_sudo_wants_a_password_the_rules_are_read_with_it_or_reported_as_unread(as_ml: Guarded) -> None:
    node = as_ml.lab["n1"]
    sudoers = node.run("sh", "-c", "grep -rlw ml /etc/sudoers.d /etc/sudoers").stdout.split()
    kept = {path: node.read(path) for path in sudoers}
    for path in kept:
        node.run("sed", "-i", "s/NOPASSWD://", path)
    node.run("chpasswd", stdin=b"ml:s3cret'word")
    try:
        (difference,) = as_ml.plan("--limit", "n1")["n1"]
        assert difference.startswith("cannot be read: sudo: a password is required")
        assert difference.endswith("ask for it with --ask-become-pass (-K)")
        command = as_ml.lab.command(
            "provision", "-i", str(as_ml.inventory), "--roles", "firewall", "--limit", "n1", "-K"
        )
        known = process.run(command, stdin=b"s3cret'word\n", env=as_ml.lab.environment)
        assert "1 host: nothing to change" in known.stderr
        wrong = process.run((*command, "--plan"), stdin=b"wrong\n", env=as_ml.lab.environment)
        assert "cannot be read: " in wrong.stdout
        assert "nothing to change" not in wrong.stderr
    finally:
        for path, text in kept.items():
            node.write(path, text, mode="0440")


DISTURBED = {
    "n1": (f"rm {CONFIRMED}", "would be gone after a reboot"),
    "n2": (
        "sysctl -w net.ipv4.ip_local_port_range='30000 60999'",
        "other rules, members or ephemeral ports are in force",
    ),
}


def test_it_is_the_live_rules_that_are_judged(guarded: Guarded) -> None:
    flushed = guarded.lab["n1"]
    flushed.run("nft", "flush", "chain", "inet", "pylaunch", "members_only")
    assert guarded.drift() == {"n1": ["the live rules are not those that were confirmed"]}
    flushed.run("nft", "-f", CONFIRMED)
    for name, (disturb, _) in DISTURBED.items():
        guarded.lab[name].run("sh", "-c", disturb)
    assert guarded.drift() == {name: [difference] for name, (_, difference) in DISTURBED.items()}
    mended = guarded.provision()
    assert mended.ok, mended.stderr
    assert "n[1-2]: firewall 2 changed; ok" in mended.stderr
    assert guarded.plan() == {name: [] for name in MEMBERS}
    assert [guarded.knock("n3", name, RANK_PORT) for name in MEMBERS] == ["refused"] * 2


def test_rules_that_cannot_be_read_are_never_as_they_should_be(guarded: Guarded) -> None:
    node = guarded.lab["n2"]
    node.run("chmod", "000", "/usr/sbin/nft")
    try:
        (difference,) = guarded.plan()["n2"]
    finally:
        node.run("chmod", "755", "/usr/sbin/nft")
    assert difference.startswith("cannot be read: ")
    assert "Permission denied" in difference


def test_a_member_more_is_let_in_until_it_is_no_member_any_more(guarded: Guarded) -> None:
    for names, answer in ((("n1", "n2", "n3"), "open"), (("n1", "n2"), "refused")):
        guarded.members(names)
        changed = guarded.provision("--limit", "n1")
        assert changed.ok, changed.stderr
        assert guarded.knock("n3", "n1", RANK_PORT) == answer


@contextlib.contextmanager
def locking_out(guarded: Guarded, name: str) -> Iterator[subprocess.Popen[str]]:
    """A controller that puts the wrong rules in force on a node, from the moment on at which they are."""
    node = guarded.lab[name]
    guarded.settings(**LOCKS_OUT, firewall_confirm_within=WITHIN_S)
    controller = subprocess.Popen(
        guarded.lab.command("provision", "-i", str(guarded.inventory), "--roles", "firewall", "--limit", name),
        env={**os.environ, **guarded.lab.environment},
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: is_armed(node) and "dport 2222 " in table(node), "the rules are in force")
        guarded.settings()
        yield controller
    finally:
        guarded.settings()
        kill_with_descendants(controller)


@contextlib.contextmanager
def no_restore(node: LabNode) -> Iterator[None]:
    """Hold the lock of the program that restores the old rules: it waits for the end of this block."""
    with Path(f"/proc/{node.leader}/root/run/pylaunch/firewall/lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_armed(node), "the old rules are back before the story could look"
        yield


def test_rules_that_lock_everyone_out_are_taken_back_by_the_host(guarded: Guarded) -> None:
    before = rules(guarded.lab["n2"])
    with locking_out(guarded, "n2") as controller:
        with no_restore(guarded.lab["n2"]):
            assert guarded.shared_login("n2").ok, "whoever is logged in does not notice"
            assert not guarded.new_login("n2").ok, "and nobody else gets in"
            _, output = controller.communicate(timeout=300)
        wait_until(lambda: guarded.can_be_reached("n2"), "n2 can be reached again", WITHIN_S + 60)
    assert controller.returncode == ExitCode.PROVISION_FAILED
    assert "n2  firewall: The controller can log in over a new connection" in output
    assert f"The host restores its old rules {WITHIN_S} s after the new ones were applied" in output
    assert without_handles(rules(guarded.lab["n2"])) == without_handles(before)


def test_access_comes_back_when_the_controller_dies_between_applying_and_confirming(guarded: Guarded) -> None:
    with locking_out(guarded, "n2") as controller, no_restore(guarded.lab["n2"]):
        kill_with_descendants(controller)
        assert not guarded.new_login("n2").ok
    wait_until(lambda: guarded.can_be_reached("n2"), "n2 can be reached again", WITHIN_S + 60)
    again = guarded.provision()
    assert again.ok, again.stderr


def without_handles(lines: list[str]) -> list[str]:
    return [line.partition(" # handle")[0] for line in lines]


def halt(pid: int) -> None:
    """Stop a process (SIGSTOP), and wait until it is. Raises ProcessLookupError or FileNotFoundError if it is gone."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: processes.read(pid).state in "TZ", f"process {pid} is stopped")


def kill_with_descendants(controller: subprocess.Popen[str]) -> None:
    """Simulate a controller that loses power: it and its Ansible end at once."""
    if controller.poll() is not None:
        return
    doomed = [controller.pid]
    for pid in doomed:
        # A process that ends meanwhile has no children left to find, and one that is stopped makes no further ones.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            halt(pid)
            for children in Path("/proc", str(pid), "task").glob("*/children"):
                doomed += [int(child) for child in children.read_text().split()]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    controller.wait()


def test_a_host_that_members_cannot_reach_is_not_confirmed(guarded: Guarded) -> None:
    """Another table drops what ours accepts: no table can overrule that."""
    node = guarded.lab["n1"]
    node.run("nft", "-f", "-", stdin=b"""
        table inet strict { chain input { type filter hook input priority 10; policy drop;
            ct state established,related accept
            tcp dport 22 accept
        }
        }""")  # fmt: skip
    node.run("nft", "delete", "table", "inet", "pylaunch")
    try:
        failed = guarded.provision("--limit", "n1")
        assert failed.returncode == ExitCode.PROVISION_FAILED
        assert "A member can connect to a port that only members may open: no." in failed.stderr
    finally:
        node.run("nft", "delete", "table", "inet", "strict")


def test_a_member_that_is_down_does_not_keep_the_others_from_being_confirmed(guarded: Guarded) -> None:
    guarded.lab["n1"].run("nft", "flush", "ruleset")
    assert guarded.drift()["n1"] == ["the rules are gone"]
    with guarded.lab["n2"].cut():
        mended = guarded.provision("--limit", "n1")
    assert mended.ok, mended.stderr
    assert guarded.knock("n3", "n1", RANK_PORT) == "refused"


def test_a_reboot_brings_the_rules_back(guarded: Guarded) -> None:
    fault: Injected = guarded.lab["n1"].kill()
    fault.undo()
    assert guarded.knock("n3", "n1", RANK_PORT) == "refused"
    echo(guarded.lab["n1"], RANK_PORT)
    assert guarded.knock("n2", "n1", RANK_PORT) == "open"
    assert guarded.knock("n3", "n1", RANK_PORT) == "refused"
    assert guarded.plan()["n1"] == []


def test_switched_off_it_leaves_nothing_of_ours_and_all_of_others(guarded: Guarded) -> None:
    guarded.settings(firewall_enabled=False)
    node = guarded.lab["n2"]
    node.run("nft", "-f", "-", stdin=FOREIGN.encode())
    off = guarded.provision()
    assert off.ok, off.stderr
    assert node.run("nft", "list", "ruleset").stdout == FOREIGN
    left = node.run("find", "/etc", "/usr/local", "/var/lib/pylaunch", "/run/systemd", "-name", "*firewall*")
    assert left.stdout == ""
    assert guarded.provision().stderr.startswith("2 hosts: nothing to change")
