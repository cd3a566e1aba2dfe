"""Facts of hosts in a hang: paths, links and GPUs are named, and no end of a path is accused without proof."""

from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, StuckConnection
from pylaunch.verdict.hangs.judge import judge_hang
from pylaunch.verdict.hangs.ranks import HangEvidence
from tests.unit.verdict.hangs.views import IN_ALL_REDUCE, calls, default_group, evidence, one_late, view

QUIET_SINCE = 1000.0
HOSTS = [f"n{number:02}" for number in range(4)]
XID_79 = KernelEvent("xid", 990.0, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "0000:3b:00", 79)
XID_31 = KernelEvent("xid", 990.0, "NVRM: Xid (PCI:0000:3b:00): 31, MMU Fault", "0000:3b:00", 31)
LINK_DOWN = KernelEvent("link-down", 1001.0, "mlx5_core 0000:17:00.0 eth0: Link down", "eth0")
NFS = KernelEvent("server-silent", 1001.0, "nfs: server store not responding, still trying", "store")


def address(host: str) -> str:
    return f"10.0.0.{host[1:].lstrip('0') or '0'}"


def to(host: str, retransmits: int = 7, *, rank: int = 1) -> StuckConnection:
    """Return a connection to port 29500 of `host` with data that nobody acknowledges."""
    return StuckConnection(rank, address(host), 29500, 65536, retransmits, 41022)


def facts(host: str, *stuck: StuckConnection, kernel: tuple[KernelEvent, ...] = ()) -> HostEvidence:
    return HostEvidence(host, 1005.0, 0.01, kernel, stuck, (address(host),))


def in_one_call() -> HangEvidence:
    """Return evidence of four ranks that wait in the same collective."""
    groups = [default_group(4)]
    return replace(
        evidence([view(rank, calls(9, over=False), IN_ALL_REDUCE, groups) for rank in range(4)]),
        quiet_since=QUIET_SINCE,
    )


def best(found: HangEvidence, *hosts: HostEvidence) -> HangFinding:
    """Return the first finding with the facts of `hosts`, and of the other hosts without trouble."""
    quiet = [facts(name) for name in HOSTS if name not in {each.host for each in hosts}]
    return judge_hang(replace(found, facts=(*hosts, *quiet)))[0]


def test_a_blocked_path_is_shown_with_both_hosts_and_one_side_accuses_nobody() -> None:
    found = best(in_one_call(), facts("n01", to("n03")))
    assert (found.kind, found.ranks, found.hosts, found.confidence) == (
        HangKind.PATH_BLOCKED, (), (), Confidence.HIGH,
    )  # fmt: skip
    assert found.text == (
        "ranks 0-3 wait in all_reduce #9 of the default group; "
        "packets between n01 and n03 get no answer: a firewall or a route, n01 port 41022 to n03 port 29500"
    )
    assert found.evidence[0] == (
        "rank 1 on n01 port 41022: 65536 bytes to n03 port 29500 are not acknowledged after 7 retransmissions"
    )
    assert found.evidence[1].startswith("ranks 0-3 on n[00-03]: all_reduce #9 of the default group is pending")
    assert found.hint == "pylaunch check --only network.ports --limit n[01,03]"


def test_a_path_that_both_ends_report_names_the_two_hosts() -> None:
    found = best(in_one_call(), facts("n01", to("n03", 3)), facts("n03", to("n01", 3, rank=3)))
    assert (found.kind, found.hosts, found.confidence) == (HangKind.PATH_BLOCKED, ("n01", "n03"), Confidence.HIGH)


def test_the_host_that_all_paths_share_is_named() -> None:
    found = best(in_one_call(), facts("n00", to("n03")), facts("n01", to("n03")))
    assert (found.kind, found.hosts) == (HangKind.PATH_BLOCKED, ("n03",))
    assert "n03 is cut off from n[00-01]" in found.text


@pytest.mark.parametrize(
    "connection",
    [
        pytest.param(to("n03", 0), id="data-in-flight"),
        pytest.param(to("n03", 2), id="two-retransmissions"),
        pytest.param(replace(to("n03"), peer="192.0.2.7"), id="host-outside-of-the-run"),
    ],
)
def test_connections_that_healthy_ranks_have_too_are_no_finding(connection: StuckConnection) -> None:
    assert best(in_one_call(), facts("n01", connection)).kind is HangKind.TRANSPORT


def test_an_address_that_two_hosts_claim_accuses_neither() -> None:
    liar = replace(facts("n02"), addresses=(address("n03"),))
    assert best(in_one_call(), facts("n01", to("n03")), liar).kind is HangKind.TRANSPORT


def test_a_silent_node_whose_connections_nobody_acknowledges_is_certain() -> None:
    views = [each for each in one_late(4, 3) if each.rank != 3]
    found = replace(evidence(views, world=4), silent_hosts={"n03": "no answer"}, addresses={address("n03"): "n03"})
    unsure, sure = judge_hang(found)[0], judge_hang(replace(found, facts=(facts("n01", to("n03")),)))[0]
    assert (unsure.kind, unsure.confidence) == (HangKind.NODE_SILENT, Confidence.MEDIUM)
    assert (sure.kind, sure.confidence, sure.hosts) == (HangKind.NODE_SILENT, Confidence.HIGH, ("n03",))
    assert any("n03 port 29500 are not acknowledged" in line for line in sure.evidence)


def test_a_damaged_gpu_is_named_with_its_host() -> None:
    found = best(in_one_call(), facts("n02", kernel=(XID_79,)))
    assert (found.kind, found.hosts, found.ranks, found.confidence) == (
        HangKind.GPU, ("n02",), (), Confidence.HIGH,
    )  # fmt: skip
    assert "GPU error on n02: Xid 79" in found.text


def test_of_several_damaged_gpus_the_earliest_is_the_first() -> None:
    found = best(in_one_call(), facts("n00", kernel=(XID_79,)), facts("n02", kernel=(replace(XID_79, time=985.0),)))
    assert (found.kind, found.hosts) == (HangKind.GPU, ())
    assert "GPU errors on n[00,02], first on n02: Xid 79" in found.text


@pytest.mark.parametrize("unused", [XID_79, LINK_DOWN], ids=["GPU", "link"])
def test_damage_of_a_host_that_nobody_waits_for_accuses_nobody_and_excuses_no_late_rank(unused: KernelEvent) -> None:
    found = best(replace(evidence(one_late(4, 1)), quiet_since=QUIET_SINCE), facts("n02", kernel=(unused,)))
    assert (found.kind, found.ranks) == (HangKind.LATE, (1,))


def test_an_xid_of_the_program_is_evidence_and_no_finding() -> None:
    found = best(in_one_call(), facts("n02", kernel=(XID_31,)))
    assert found.kind is HangKind.TRANSPORT
    assert f"n02 kernel: {XID_31.text}" in found.evidence


def test_a_link_that_is_down_explains_a_collective_that_all_ranks_called() -> None:
    found = best(in_one_call(), facts("n02", kernel=(LINK_DOWN,)))
    assert (found.kind, found.hosts, found.confidence) == (HangKind.LINK, ("n02",), Confidence.MEDIUM)
    sure = best(in_one_call(), facts("n01", to("n02")), facts("n02", kernel=(LINK_DOWN,)))
    assert (sure.kind, sure.hosts, sure.confidence) == (HangKind.LINK, ("n02",), Confidence.HIGH)


def test_a_message_from_long_before_the_hang_is_no_evidence() -> None:
    old = replace(XID_79, time=QUIET_SINCE - 600)
    found = best(in_one_call(), facts("n02", kernel=(old,)))
    assert found.kind is HangKind.TRANSPORT
    assert not any("kernel" in line for line in found.evidence)


def test_a_disk_wait_shows_the_message_of_the_kernel_about_its_storage() -> None:
    views = [replace(each, state="D") if each.rank == 1 else each for each in one_late(4, 1)]
    found = best(replace(evidence(views), quiet_since=QUIET_SINCE), facts("n01", kernel=(NFS,)))
    assert (found.kind, found.ranks, found.hosts) == (HangKind.DISK_WAIT, (1,), ("n01",))
    assert f"n01 kernel: {NFS.text}" in found.evidence
