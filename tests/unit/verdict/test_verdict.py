"""The cause of a failure is named where it is known; a victim never is."""

from signal import SIGHUP, SIGKILL, SIGTERM, Signals

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.outcome import Named
from pylaunch.protocol.node_evidence import SIGNALLED, RankEnd, RankState
from pylaunch.verdict.failure_evidence import Evidence
from pylaunch.verdict.verdict import Verdict, judge, judge_lost

RANKS = {"n1": frozenset({0}), "n2": frozenset({1}), "n3": frozenset({2})}
WAITED = "timed out waiting for other ranks"
LOST = "lost the connection to another rank"


def failed(rank: int | None, at: float, *, error: str = "", code: int = 1, host: str = "") -> RankEnd:
    return RankEnd(rank, host or f"n{(rank or 0) + 1}", code, None, at, stopped=False, error=error)


def killed(rank: int, at: float, signum: int = SIGKILL, *, stopped: bool = False) -> RankEnd:
    return RankEnd(rank, f"n{rank + 1}", None, signum, at, stopped)


def victim(rank: int | None, at: float, symptom: str = WAITED, *, host: str = "") -> RankEnd:
    return RankEnd(rank, host or f"n{(rank or 0) + 1}", 1, None, at, stopped=False, symptom=symptom)


def waiting(rank: int, state: str = "S", *, silent_s: float | None = 31.0, step: int | None = None) -> RankState:
    return RankState(rank, state, silent_s, step)


def verdict(*ends: RankEnd, lost: dict[str, str] | None = None, **states: tuple[RankState, ...]) -> Verdict:
    found = judge(Evidence(RANKS, ends, states, lost or {}))
    assert found is not None
    return found


def test_good_ends_and_ends_on_request_are_nobody_s_fault() -> None:
    ends = (failed(0, 1.0, code=0), killed(1, 2.0, SIGTERM, stopped=True))
    assert judge(Evidence(RANKS, ends)) is None


def test_an_exception_is_certain_only_with_the_exit_code_of_one_that_nobody_catches() -> None:
    ends = (failed(1, 2.0, error="MemoryError: x", code=code) for code in (1, 3))
    found = [verdict(end, n1=(waiting(0),), n3=(waiting(2),)).causes[0].confidence for end in ends]
    assert found == [Confidence.HIGH, Confidence.MEDIUM]


def test_a_launcher_is_the_cause_only_when_no_rank_failed() -> None:
    launcher = failed(None, 6.0, host="n1")
    assert verdict(launcher).named == Named("n1", None)
    assert verdict(launcher, failed(0, 6.1, code=3)).named == Named("n1", 0)
    assert verdict(launcher, victim(2, 6.1)).named is None


def test_a_stopped_rank_is_named_in_place_of_those_that_waited_for_it() -> None:
    found = verdict(victim(0, 5.0), victim(2, 5.1), n1=(), n2=(waiting(1, "T", step=7),), n3=())
    assert found.named == Named("n2", 1)
    assert found.reason == (
        "rank 1 on n2 is stopped (state T: SIGSTOP or a debugger) after step 7; "
        "rank 0 on n1 timed out waiting for other ranks"
    )
    assert found.shown is not None
    assert found.shown.rank == 0


def test_a_rank_that_exited_early_is_named_with_the_time_between() -> None:
    found = verdict(failed(1, 4.5, code=0), victim(0, 5.0, LOST), victim(2, 5.1, LOST))
    assert found.named == Named("n2", 1)
    assert found.reason == (
        "rank 1 on n2 exited with code 0, 500 ms before rank 0 on n1 lost the connection to another rank"
    )
    several = verdict(failed(0, 1.0, code=0), failed(1, 3.0, code=0), victim(2, 5.0, LOST))
    assert (several.named, several.reason.partition(",")[0]) == (None, "ranks 0-1 exited with code 0")


def test_the_one_rank_that_has_not_ended_is_named_with_its_state() -> None:
    found = verdict(victim(0, 5.0), victim(2, 5.1), killed(1, 8.0, stopped=True), n1=(), n2=(waiting(1),), n3=())
    assert found.named == Named("n2", 1)
    assert found.reason == (
        "rank 1 on n2 alone had not ended (sleeping, last output 31 s before); "
        "rank 0 on n1 timed out waiting for other ranks"
    )
    stuck = verdict(victim(0, 5.0), victim(2, 5.1), n2=(waiting(1, "D", silent_s=None, step=3),))
    assert "waiting for a disk, a network file system or a driver (state D), no output, at step 3" in stuck.reason


def test_nobody_is_named_where_two_have_not_ended_or_a_node_did_not_say() -> None:
    two = verdict(victim(0, 5.0), n1=(), n2=(waiting(1),), n3=(waiting(2),))
    assert (two.named, two.reason) == (None, "no rank is named: rank 0 on n1 timed out waiting for other ranks")
    silent = verdict(victim(0, 5.0), killed(2, 7.0, SIGTERM, stopped=True), n1=(), n2=(waiting(1),))
    assert silent.named is None


def test_a_rank_that_its_launcher_ended_had_not_ended_of_its_own() -> None:
    """Two ranks a node: the launcher of the victim ends its sibling, which may as well be the cause."""
    ranks = {"n1": frozenset({0, 1}), "n2": frozenset({2, 3})}
    ends = (victim(0, 5.0), RankEnd(1, "n1", None, SIGTERM, 5.1, stopped=True), victim(2, 5.1, host="n2"))
    states = {"n1": (waiting(1),), "n2": (waiting(3),)}
    found = judge(Evidence(ranks, ends, states))
    assert found is not None
    assert found.named is None


def test_the_end_of_a_slurm_job_accuses_none_of_its_nodes() -> None:
    ended = "Slurm job 17 has ended"
    found = verdict(victim(0, 5.0, LOST), lost={"n1": ended, "n2": ended})
    assert (found.named, found.reason.partition(";")[0]) == (None, ended)
    assert [each.kind for each in found.causes][:1] == ["job-ended"]
    mixed = verdict(victim(0, 5.0, LOST), lost={"n1": ended, "n2": "no heartbeat for 10 s"})
    assert mixed.causes[0].kind == "node-lost"


def test_a_failure_that_a_lost_agent_passed_on_is_the_cause_unless_another_node_is_lost_too() -> None:
    passed_on = "n2: rank 1 ended with exit code 1"
    alone = Evidence(RANKS, (), {}, {"n2": "no heartbeat for 5 s"}, stopping=passed_on)
    assert judge_lost(alone).named == Named("n2", 1)
    both = Evidence(RANKS, (), {}, {"n1": "no heartbeat for 9 s", "n2": "no heartbeat for 5 s"}, stopping=passed_on)
    found = judge_lost(both)
    assert "rank 1" not in found.reason
    assert found.named != Named("n2", 1)


def test_a_node_that_is_shut_down_is_lost_after_its_agent_received_a_signal() -> None:
    lost, signal = {"n2": "no heartbeat for 5 s"}, f"n2: {SIGNALLED}"
    (cause,) = judge_lost(Evidence(RANKS, (), {}, lost, stopping=signal)).causes
    assert (cause.kind, cause.named) == ("node-lost", Named("n2", None))
    assert cause.reason == f"n2 lost: no heartbeat for 5 s; before, {SIGNALLED}"
    assert "a shutdown, a logout" in cause.question
    several = judge_lost(Evidence(RANKS, (), {}, {**lost, "n1": "no heartbeat for 5 s"}, stopping=signal))
    assert (several.named, several.reason) == (None, f"n[1-2] lost: no heartbeat for 5 s; before, n2: {SIGNALLED}")
    other = judge_lost(Evidence(RANKS, (), {}, {"n1": "no heartbeat for 5 s"}, stopping=signal))
    assert SIGNALLED not in other.reason, "the signal on n2 says nothing about n1"


@pytest.mark.parametrize("signum", [SIGTERM, SIGHUP])
def test_a_signal_to_the_agent_and_its_ranks_is_about_the_node_and_not_about_a_rank(signum: int) -> None:
    evidence = Evidence(RANKS, (killed(1, 5.0, signum), victim(0, 5.2, LOST)), stopping=f"n2: {SIGNALLED}")
    found = judge(evidence)
    assert found is not None
    assert (found.named, found.causes[0].kind) == (Named("n2", None), "signalled")
    assert found.reason == f"n2: {SIGNALLED}; rank 1 on n2 was killed by {Signals(signum).name}"
    elsewhere = judge(replace(evidence, stopping=f"n1: {SIGNALLED}"))
    assert elsewhere is not None
    assert elsewhere.named == Named("n2", 1)


def alike(*errors: str) -> Verdict:
    """Return the verdict on three ranks that failed at the same moment with these errors."""
    return verdict(*(failed(rank, 5.0 + rank / 100, error=error) for rank, error in enumerate(errors)))


@pytest.mark.parametrize(
    "text",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/scratch/{host}/job{rank}/train.npz'",
        "DistNetworkError: The server socket has failed to listen on (10.0.0.{rank}, 2950{rank})",
        "RuntimeError: no device on {host}: object at 0x7f{rank}a",
        "OSError: cannot open /tmp/tmpx{rank}k_z/data",
    ],
)
def test_failures_that_differ_in_host_path_address_or_number_are_alike_and_the_shown_text_has_its_rank(
    text: str,
) -> None:
    found = alike(*(text.format(host=f"n{rank + 1}", rank=rank) for rank in range(3)))
    assert found.named is None
    shown = text.format(host="n1", rank=0)
    assert found.reason == f"all 3 ranks failed alike: exited with code 1: {shown} (of rank 0 on n1)"


NO_NCCL = "RuntimeError: Distributed package doesn't have NCCL built in"
OTHERS_STOPPED = "; nothing in this error is about one rank, and the other 2 ranks were stopped"


@pytest.mark.parametrize("error", [NO_NCCL, "ModuleNotFoundError: No module named 'flash_attn' (train.py:3)"])
def test_the_first_of_failures_that_may_have_awaited_all_ranks_is_not_called_the_cause(error: str) -> None:
    first = failed(1, 5.0, error=error)
    found = verdict(
        first,
        killed(0, 6.0, SIGTERM, stopped=True),
        killed(2, 6.0, SIGTERM, stopped=True),
        n1=(waiting(0),),
        n3=(waiting(2),),
    )
    assert found.reason == f"rank 1 on n2 failed first: exited with code 1: {error}{OTHERS_STOPPED}"
    assert (found.named, found.causes[0].confidence) == (None, Confidence.MEDIUM)


@pytest.mark.parametrize(
    ("error", "others"),
    [(NO_NCCL, waiting(0, step=3)), ("KeyError: 'x'", waiting(0)), ("ValueError: no data", waiting(0))],
    ids=["others are further", "data", "data of another kind"],
)
def test_a_failure_that_did_not_await_the_others_names_its_rank(error: str, others: RankState) -> None:
    found = verdict(
        failed(1, 5.0, error=error),
        killed(0, 6.0, SIGTERM, stopped=True),
        killed(2, 6.0, SIGTERM, stopped=True),
        n1=(others,),
        n3=(waiting(2),),
    )
    assert found.named == Named("n2", 1)


def test_failures_with_different_files_or_modules_are_not_alike() -> None:
    assert " failed alike" not in alike(*(f"ModuleNotFoundError: No module named '{name}'" for name in "abc")).reason
    assert " failed alike" not in alike(*(f"FileNotFoundError: '/data/{name}.bin'" for name in "abc")).reason


def test_a_rank_that_has_not_ended_is_asked_for_its_last_lines_before_it_is_named() -> None:
    ends = (victim(0, 5.0, LOST), victim(2, 5.1, LOST))
    assert verdict(*ends, n1=(), n2=(waiting(1),), n3=()).named == Named("n2", 1)
    is_victim = replace(waiting(1), error="RuntimeError: Connection closed by peer", symptom=LOST)
    found = verdict(*ends, n1=(), n2=(is_victim,), n3=())
    assert (found.named, found.causes) == (None, ())
    own = verdict(*ends, n1=(), n2=(replace(waiting(1), error="ValueError: loss is NaN"),), n3=())
    assert (own.named, own.causes[0].kind) == (Named("n2", 1), "rank-failed")
    assert "alone had not ended (sleeping, last output 31 s before): ValueError: loss is NaN" in own.reason


def test_a_rank_that_exited_with_code_0_is_asked_for_its_last_lines_before_it_is_named() -> None:
    gone = replace(failed(1, 4.5, code=0), error="ValueError: loss is NaN (train.py:12)")
    found = verdict(gone, victim(0, 5.0, LOST), victim(2, 5.1, LOST))
    assert found.reason == "rank 1 on n2 exited with code 0 after ValueError: loss is NaN (train.py:12)"
    assert (found.named, found.shown, found.causes[0].kind) == (Named("n2", 1), gone, "rank-failed")
    is_victim = replace(gone, error="RuntimeError: Connection closed by peer", symptom=LOST)
    assert verdict(is_victim, victim(0, 5.0, LOST), victim(2, 5.1, LOST)).named is None
