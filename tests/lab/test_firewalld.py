"""The role firewall where firewalld is in charge (n1); n2 has no firewall of its own, n3 is a machine of nobody's."""

import contextlib
import json
from collections.abc import Callable

import pytest

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.errors import ExitCode
from tests.lab.firewall import OTHER_PORT, RANK_PORT, RENDEZVOUS_PORT, Guarded, echo, is_armed
from tests.waiting import DEADLINE_S, wait_until

MEMBERS = ("n1", "n2")
CLOSED_PORT = 9090
"""A port that firewalld itself lets nobody open."""

WANTED = "/etc/pylaunch/firewall/wanted.json"
BAN = "rule family=ipv4 source address=192.0.2.7 drop"
MEMBER_RULES = "filter_IN_policy_pylaunch_pre"
STRANGER_RULES = "filter_IN_policy_pylaunch_post"

ASK_TIME = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.settimeout(float(sys.argv[2]))
    asking.connect((sys.argv[1], 123))
    asking.send(b"\\x23" + bytes(47))
    try:
        print("answered" if len(asking.recv(48)) == 48 else "?")
    except (TimeoutError, OSError) as error:
        print("not answered")
"""


def foreign(node: LabNode) -> tuple[str, ...]:
    """Settings of others in firewalld, runtime and permanent: zones, ipsets, direct rules."""
    zones = [node.run("firewall-cmd", *where, "--list-all-zones").stdout for where in ((), ("--permanent",))]
    rules = node.run("firewall-cmd", "--direct", "--get-all-rules").stdout
    return (*zones, node.run("firewall-cmd", "--ipset=banned", "--get-entries").stdout, rules)


def chain(node: LabNode, name: str) -> str:
    """A chain of firewalld's table as the kernel has it, with the handles of its rules."""
    return node.run("nft", "--handle", "list", "chain", "inet", "firewalld", name).stdout


@pytest.fixture(scope="module")
def before() -> list[tuple[str, ...]]:
    """Settings of others in firewalld before provisioning."""
    return []


@pytest.fixture(scope="module")
def guarded(
    fresh_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory, before: list[tuple[str, ...]]
) -> Guarded:
    """n1 and n2 provisioned; n1 serves time to n2, and its administrator has rules that last and rules that do not."""
    directory = tmp_path_factory.mktemp("firewalld")
    lab = fresh_lab(3, inventory=directory / "all.ini")
    node = lab["n1"]
    node.run("apt-get", "install", "-qq", "--yes", "firewalld")
    node.run("firewall-cmd", "--permanent", "--new-ipset=banned", "--type=hash:ip")
    node.run("firewall-cmd", "--permanent", f"--add-rich-rule={BAN}")
    node.run("firewall-cmd", "--reload")
    node.run("firewall-cmd", f"--add-port={OTHER_PORT}/tcp")
    node.run("firewall-cmd", "--zone=internal", "--add-interface=fabric9")
    node.run("firewall-cmd", "--ipset=banned", "--add-entry=192.0.2.8")
    node.run("firewall-cmd", "--direct", "--add-rule", "ipv4", "filter", "INPUT", "0", "-s", "192.0.2.9", "-j", "DROP")
    before.append(foreign(node))
    for port in (RANK_PORT, RENDEZVOUS_PORT, OTHER_PORT, CLOSED_PORT):
        echo(node, port)
    made = Guarded(lab, directory / "cluster.ini")
    made.members(MEMBERS)
    made.settings(time_sync_local=True)
    first = lab.pylaunch("provision", "-i", str(made.inventory), "--roles", "time_sync,firewall")
    assert first.ok, first.stderr
    return made


def test_members_may_open_the_ports_of_ranks_and_strangers_are_refused(guarded: Guarded) -> None:
    assert guarded.knock("n2", "n1", RANK_PORT) == "open"
    assert guarded.knock("n2", "n1", RENDEZVOUS_PORT) == "open"
    assert guarded.knock("n3", "n1", RANK_PORT) == "refused"
    assert guarded.knock("n3", "n1", RENDEZVOUS_PORT) == "refused"


def test_everything_else_is_as_firewalld_has_it(guarded: Guarded, before: list[tuple[str, ...]]) -> None:
    assert guarded.knock("n3", "n1", OTHER_PORT) == "open"
    assert guarded.knock("n3", "n1", 22) == "open"
    assert guarded.knock("n2", "n1", CLOSED_PORT) == "No route to host"
    assert [foreign(guarded.lab["n1"])] == before


def test_a_host_that_serves_time_is_open_to_members_that_ask(guarded: Guarded) -> None:
    def asks(name: str, within_s: float) -> str:
        words = ("python3", "-c", ASK_TIME, guarded.lab["n1"].address, str(within_s))
        return guarded.lab[name].run(*words).stdout.strip()

    assert asks("n2", DEADLINE_S) == "answered"
    assert asks("n3", 1.0) == "not answered"

    def follows() -> bool:
        row = guarded.lab["n2"].run("chronyc", "-c", "-n", "tracking").stdout.strip().split(",")
        return row[1] == guarded.lab["n1"].address and row[13] == "Normal"

    wait_until(follows, "n2 follows n1")


def test_a_second_run_changes_nothing(guarded: Guarded) -> None:
    rules = chain(guarded.lab["n1"], STRANGER_RULES)
    assert guarded.plan() == {"n1": [], "n2": []}
    again = guarded.lab["n1"].run("python3", "-IB", "/usr/local/lib/pylaunch/firewall", "arm")
    assert json.loads(again.stdout) == {"changed": False}
    assert chain(guarded.lab["n1"], STRANGER_RULES) == rules


def test_the_kernel_is_verified_by_other_eyes_than_ours(guarded: Guarded) -> None:
    verified, failed = guarded.verify()
    assert verified.returncode == ExitCode.DONE, verified.stdout
    assert failed == set()


@pytest.mark.parametrize(
    ("disturb", "differences"),
    [
        (f"nft flush chain inet firewalld {STRANGER_RULES}", ["the live rules are not those that were confirmed"]),
        (
            "nft flush chain inet firewalld filter_INPUT_POLICIES_pre",
            ["the live rules are not those that were confirmed"],
        ),
        ("firewall-cmd --ipset=pylaunch-members4 --add-entry=192.0.2.1", ["192.0.2.1 is not a member"]),
        ("firewall-cmd --permanent --delete-policy=pylaunch", ["would be gone after a reboot"]),
        ("systemctl disable firewalld.service", ["would be gone after a reboot"]),
    ],
)
def test_both_what_is_live_and_what_lasts_are_judged(guarded: Guarded, disturb: str, differences: list[str]) -> None:
    node = guarded.lab["n1"]
    kept = node.read("/etc/firewalld/policies/pylaunch.xml")
    node.run("sh", "-c", disturb)
    try:
        assert guarded.plan()["n1"] == differences
    finally:
        node.write("/etc/firewalld/policies/pylaunch.xml", kept)
        node.run("systemctl", "--quiet", "enable", "firewalld.service")
        node.run("python3", "-IB", "/usr/local/lib/pylaunch/firewall/reload.py")
        node.run("firewall-cmd", "--quiet", "--ipset=pylaunch-members4", "--remove-entry=192.0.2.1", check=False)


def test_rules_that_somebody_flushed_are_put_back(guarded: Guarded) -> None:
    """With a table that is gone, firewalld itself does not get through a reload."""
    guarded.lab["n1"].run("nft", "flush", "ruleset")
    assert guarded.plan()["n1"] == ["the rules are gone"]
    mended = guarded.provision("--limit", "n1")
    assert mended.ok, mended.stderr
    assert guarded.knock("n3", "n1", RANK_PORT) == "refused"
    assert guarded.knock("n2", "n1", RANK_PORT) == "open"


def test_a_rewrite_by_firewalld_itself_changes_nothing(guarded: Guarded) -> None:
    node = guarded.lab["n1"]
    node.run("firewall-cmd", "--permanent", "--policy=pylaunch", "--set-description=ours")
    assert "ours" in node.read("/etc/firewalld/policies/pylaunch.xml")
    assert guarded.plan()["n1"] == []


def test_rules_in_a_place_that_cannot_be_read_are_never_as_they_should_be(guarded: Guarded) -> None:
    node = guarded.lab["n1"]
    node.run("sed", "-i", "s/^FirewallBackend=.*/FirewallBackend=iptables/", "/etc/firewalld/firewalld.conf")
    try:
        (difference,) = guarded.plan()["n1"]
    finally:
        node.run("sed", "-i", "s/^FirewallBackend=.*/FirewallBackend=nftables/", "/etc/firewalld/firewalld.conf")
    assert difference.startswith("cannot be read: firewalld keeps its rules in iptables")


def test_a_member_more_is_an_address_more_in_a_set(guarded: Guarded) -> None:
    """Unchanged handles show that nothing was loaded again."""
    guarded.admit_for_a_while("n3", lambda: chain(guarded.lab["n1"], MEMBER_RULES))


def test_rules_that_lock_everyone_out_are_taken_back_by_the_host(
    guarded: Guarded, before: list[tuple[str, ...]]
) -> None:
    """Armed from inside, as nobody who comes in by SSH may: the port of SSH is closed to this machine."""
    node = guarded.lab["n1"]
    kept = node.read(WANTED)
    policy = node.read("/etc/firewalld/policies/pylaunch.xml")
    wrong = {**json.loads(kept), "ssh_ports": [2222], "member_ports": ["1-65535"], "members": ["192.0.2.1"]}
    node.write(WANTED, json.dumps(wrong))
    try:
        with contextlib.ExitStack() as at_end:
            at_end.callback(node.write, WANTED, kept)
            node.run("python3", "-IB", "/usr/local/lib/pylaunch/firewall", "arm", "--within", "30")
            assert not guarded.new_login("n1").ok, "nobody gets in"
        wait_until(lambda: guarded.can_be_reached("n1"), "n1 can be reached again")
    finally:
        wait_until(lambda: not is_armed(node), "the rules were taken back")
    assert node.read("/etc/firewalld/policies/pylaunch.xml") == policy
    assert guarded.plan()["n1"] == []
    assert [foreign(node)] == before


def test_switched_off_it_leaves_nothing_of_ours_and_all_of_others(
    guarded: Guarded, before: list[tuple[str, ...]]
) -> None:
    node = guarded.lab["n1"]
    guarded.settings(firewall_enabled=False)
    off = guarded.provision()
    assert off.ok, off.stderr
    assert "pylaunch" not in node.run("nft", "list", "ruleset").stdout
    assert "pylaunch" not in node.run("firewall-cmd", "--get-policies").stdout
    assert node.run("find", "/etc/firewalld", "/var/lib/pylaunch", "-name", "*pylaunch-*").stdout == ""
    assert node.run("find", "/etc/firewalld/policies", "-type", "f").stdout == ""
    assert [foreign(node)] == before
