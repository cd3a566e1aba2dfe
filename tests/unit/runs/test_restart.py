from dataclasses import replace

import pytest

from pylaunch.model.diagnosis.cause import FailureCause, Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.outcome import Outcome, Status
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, RankEnd
from pylaunch.runs.restart import COOL_DOWN_S, HANGING_HOSTS, Again, Attempt, Over, Policy, excluded, next_attempt

HOSTS = ("n1", "n2", "n3", "s1")
THREE = HOSTS[:3]
POLICY = Policy(max_restarts=5, nodes=3, min_nodes=3)


def failed(on: str, hosts: tuple[str, ...] = THREE, *, ran_s: float = 1.0, progress: int | None = None) -> Attempt:
    """A rank on `on` exited with code 1."""
    end = RankEnd(0, on, 1, None, 0.0, stopped=False)
    return Attempt(hosts, Outcome(Status.FAILED, "", 0.0, (end,), {}, (), end), ran_s, progress=progress)


def lost(host: str, hosts: tuple[str, ...] = THREE) -> Attempt:
    return Attempt(hosts, Outcome(Status.FAILED, "", 0.0, (), {}, (host,)), 50.0)


def agent_lost(host: str, *, is_clean: bool = True) -> Attempt:
    reason = f"{host} answers, but the agent of run 7f3a ended without a report"
    unproven = () if is_clean else (host,)
    return Attempt(THREE, Outcome(Status.FAILED, reason, 0.0, (), {}, unproven, answering=(host,)), 50.0)


def ended(status: Status) -> Attempt:
    return Attempt(THREE, Outcome(status, "", 0.0, (), {}), 9.0)


def after(*attempts: Attempt, policy: Policy = POLICY, hosts: tuple[str, ...] = HOSTS) -> Again | Over:
    return next_attempt(policy, hosts, [(float(at), attempt) for at, attempt in enumerate(attempts)], len(attempts))


@pytest.mark.parametrize("status", [Status.DONE, Status.STOPPED, Status.REFUSED])
def test_a_run_that_ended_as_somebody_wanted_or_was_refused_as_a_whole_is_not_tried_again(status: Status) -> None:
    assert after(ended(status)) == Over("")


REFUSAL = Attempt(THREE, Outcome(Status.REFUSED, "", 0.0, (), {}), 0.0, refused={"n3": ("no disk",)})


@pytest.mark.parametrize(
    ("attempts", "again"),
    [
        ([failed("n2")], Again(THREE, "")),
        ([failed("n2", progress=5), failed("n2", progress=9), failed("n2", progress=12)], Again(THREE, "")),
        ([lost("n1")], Again(("s1", "n2", "n3"), "s1 in place of n1: lost")),
        ([REFUSAL], Again(("n1", "n2", "s1"), "s1 in place of n3: refused: no disk")),
    ],
    ids=["a rank failed", "a program fails again and again", "a node is lost", "a node refuses"],
)
def test_a_host_is_replaced_in_its_place_for_what_it_did_and_not_for_the_program(
    attempts: list[Attempt], again: Again
) -> None:
    assert after(*attempts) == again


def test_restarts_are_counted() -> None:
    policy = Policy(max_restarts=1, nodes=3, min_nodes=3)
    assert after(failed("n1"), failed("n2"), policy=policy) == Over("the one restart is used up")


def test_a_host_that_lost_its_agent_is_used_again_once_it_is_proven_clean() -> None:
    assert after(agent_lost("n2")) == Again(THREE, "")
    why = "answers, but the agent of run 7f3a ended without a report"
    assert after(agent_lost("n2", is_clean=False)) == Again(("n1", "s1", "n3"), f"s1 in place of n2: {why}")


def test_a_host_that_was_restarted_is_excluded_and_is_no_evidence_against_the_job() -> None:
    cause = FailureCause("node-restarted", "", Confidence.HIGH, Named("n2", None))
    rebooted = agent_lost("n2")
    rebooted = replace(rebooted, outcome=replace(rebooted.outcome, causes=(cause,)), ran_s=1.0)
    assert rebooted.unfit == {"n2": "restarted during the run"}
    assert isinstance(after(*[rebooted] * 4), Again)


def test_without_a_spare_the_world_shrinks_as_far_as_allowed() -> None:
    policy = Policy(max_restarts=5, nodes=3, min_nodes=2)
    assert after(lost("n2"), policy=policy, hosts=THREE) == Again(("n1", "n3"), "without n2: lost")
    assert after(lost("n2"), hosts=THREE) == Over("2 of 3 hosts are left, and the run needs 3; left out: n2 (lost)")


def test_a_host_whose_device_is_broken_is_left_out_with_the_reason() -> None:
    error = "RuntimeError: CUDA error: uncorrectable ECC error encountered (train.py:7)"
    end = RankEnd(0, "n2", 1, None, 0.0, stopped=False, error=error)
    broken = Attempt(THREE, Outcome(Status.FAILED, "", 0.0, (end,), {}, (), end), 9.0)
    change = "s1 in place of n2: hardware: uncorrectable ECC error encountered"
    assert after(broken) == Again(("n1", "s1", "n3"), change)


def test_a_host_that_was_left_out_comes_back_after_a_while_that_doubles() -> None:
    attempts = [(0.0, lost("n1"))]
    assert excluded(attempts, COOL_DOWN_S - 1) == {"n1": "lost"}
    assert excluded(attempts, COOL_DOWN_S) == {}
    again = [*attempts, (1000.0, lost("n1"))]
    assert excluded(again, 1000.0 + 2 * COOL_DOWN_S - 1) == {"n1": "lost"}
    assert excluded(again, 1000.0 + 2 * COOL_DOWN_S) == {}


def test_a_world_that_shrank_grows_again_when_a_host_is_back() -> None:
    policy = Policy(max_restarts=9, nodes=3, min_nodes=2)
    attempts = [(0.0, lost("n2")), (COOL_DOWN_S, failed("n1", ("n1", "n3"), progress=3))]
    assert next_attempt(policy, THREE, attempts, COOL_DOWN_S) == Again(("n1", "n3", "n2"), "with n2")


def test_three_attempts_without_progress_are_a_crash_loop_on_one_host_or_on_several() -> None:
    assert after(failed("n1"), failed("n2")) == Again(THREE, "")
    for hosts in (("n1", "n2", "n3"), ("n2", "n2", "n2")):
        assert after(*map(failed, hosts)) == Over("3 attempts in a row made no progress: a crash loop")


@pytest.mark.parametrize(
    "second", [failed("n2", progress=7), failed("n2", ran_s=500.0), lost("n3")], ids=["step", "time", "lost node"]
)
def test_progress_or_a_lost_node_breaks_the_row(second: Attempt) -> None:
    assert isinstance(after(failed("n1"), failed("n3"), second, failed("n1")), Again)


def hung() -> Attempt:
    """A hang ended the attempt."""
    finding = HangFinding(HangKind.STUCK, "x", Confidence.HIGH)
    return Attempt(THREE, Outcome(Status.FAILED, "hang: x", 0.0, (), {}, hang=finding), 50.0)


def test_a_hang_is_tried_again_on_the_same_hosts_only_if_asked() -> None:
    assert after(hung()) == Over("")
    assert after(hung(), policy=replace(POLICY, restarts_hangs=True)) == Again(THREE, "")


def test_hangs_in_a_row_without_progress_are_a_crash_loop() -> None:
    decision = after(hung(), hung(), hung(), policy=replace(POLICY, restarts_hangs=True))
    assert decision == Over("3 attempts in a row made no progress: a crash loop")


def hung_by(
    kind: HangKind,
    hosts: tuple[str, ...] = ("n2",),
    confidence: Confidence = Confidence.HIGH,
    facts: tuple[HostEvidence, ...] = (),
) -> Attempt:
    """An attempt that ended because of a hang."""
    finding = HangFinding(kind, "x", confidence, (), hosts)
    outcome = Outcome(Status.FAILED, "hang: x", 0.0, (), {}, hang=finding, hosts=facts)
    return Attempt(THREE, outcome, 500.0)


HANGS = Policy(max_restarts=5, nodes=3, min_nodes=3, restarts_hangs=True)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (HangKind.DISK_WAIT, "a rank waits for its storage"),
        (HangKind.NODE_SILENT, "does not answer"),
        (HangKind.LINK, "network link down"),
        (HangKind.GPU, "GPU error"),
        (HangKind.PATH_BLOCKED, "cut off from other hosts"),
    ],
)
def test_the_host_that_caused_a_hang_is_replaced(kind: HangKind, why: str) -> None:
    assert after(hung_by(kind), policy=HANGS) == Again(("n1", "s1", "n3"), f"s1 in place of n2: hang: {why}")


@pytest.mark.parametrize("kind", [kind for kind in HangKind if kind not in HANGING_HOSTS])
def test_a_hang_of_the_script_excludes_no_host(kind: HangKind) -> None:
    assert after(hung_by(kind), policy=HANGS) == Again(THREE, "")


def test_a_file_server_that_several_hosts_lose_excludes_none() -> None:
    silent = KernelEvent("server-silent", 1.0, "nfs: server store not responding", "store")
    alone, shared = HostEvidence("n2", 1.0, 0.0, (silent,)), HostEvidence("n3", 1.0, 0.0, (silent,))
    assert after(hung_by(HangKind.DISK_WAIT, facts=(alone,)), policy=HANGS) != Again(THREE, "")
    assert after(hung_by(HangKind.DISK_WAIT, facts=(alone, shared)), policy=HANGS) == Again(THREE, "")
