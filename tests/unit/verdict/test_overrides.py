"""Ranks that meet elsewhere than they should are found; a script that overrides variables well is not accused."""

from dataclasses import replace
from typing import Any

import pytest

from pylaunch.model.diagnosis.cause import Certainty, Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangKind
from pylaunch.protocol.examination import Frame, OverriddenVariable, RankView
from pylaunch.protocol.node_evidence import RankEnd, RankState
from pylaunch.verdict.causes.overrides import meetings, overridden
from pylaunch.verdict.failure_evidence import Evidence
from pylaunch.verdict.hangs.judge import judge_hang as judge_hang
from pylaunch.verdict.verdict import judge
from tests.unit.verdict.hangs.views import IN_ALL_REDUCE, SITE, default_group, evidence, view

IN_INIT = (
    Frame("_create_c10d_store", f"{SITE}/torch/distributed/rendezvous.py", 199),
    Frame("init_process_group", f"{SITE}/torch/distributed/distributed_c10d.py", 1892),
    Frame("main", "/job/train.py", 4),
)
TRAINS = (Frame("step", "/job/train.py", 9),)


def rank(number: int, *, is_argument: bool = False, frames: tuple[Frame, ...] = IN_INIT, **used: str) -> RankView:
    """Return a rank that waits for the others with other variables than it got, in a run of three at 10.0.0.1:29500."""
    given = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "RANK": str(number), "WORLD_SIZE": "3"}
    changed = {name: value for name, value in used.items() if value != given[name]}
    overrides = tuple(OverriddenVariable(name, given[name], value, is_argument) for name, value in changed.items())
    return replace(view(number, (), frames, ()), overrides=overrides)


@pytest.mark.parametrize(
    ("views", "text", "is_sure"),
    [
        ([rank(0), rank(1, MASTER_ADDR="127.0.0.1"), rank(2)],
         "rank 1 on n01 uses MASTER_ADDR=127.0.0.1, but the run's is 10.0.0.1", True),
        ([rank(0), rank(1, MASTER_PORT="1234"), rank(2, MASTER_PORT="1234")],
         "ranks 1-2 on n[01-02] use MASTER_PORT=1234, but the run's is 29500", True),
        ([rank(0), rank(1, RANK="0"), rank(2, RANK="0")],
         "ranks 1-2 on n[01-02] use RANK=0 (rank 1), but pylaunch gave it 1", True),
        ([rank(each, WORLD_SIZE="4", is_argument=True) for each in range(3)],
         "ranks 0-2 on n[00-02] pass world size 4 to init_process_group, but the run's is 3", True),
        ([rank(each, MASTER_ADDR="localhost") for each in range(3)],
         "ranks 0-2 on n[00-02] use MASTER_ADDR=localhost, but the run's is 10.0.0.1", True),
        ([rank(each, MASTER_ADDR="10.0.0.9") for each in range(3)],
         "ranks 0-2 on n[00-02] use MASTER_ADDR=10.0.0.9, but the run's is 10.0.0.1", False),
        ([rank(each, RANK=str(2 - each)) for each in range(3)],
         "ranks 0,2 on n[00,02] use RANK=2 (rank 0), but pylaunch gave it 0", False),
        ([rank(0, MASTER_ADDR="127.0.0.1"), rank(1), rank(2)],
         "rank 0 on n00 uses MASTER_ADDR=127.0.0.1, but the run's is 10.0.0.1", False),
    ],
    ids=["address", "port", "rank", "world size", "loopback", "all alike", "another order", "loopback at the store"],
)  # fmt: skip
def test_ranks_that_meet_elsewhere_are_found_while_they_wait(
    views: list[RankView], text: str, *, is_sure: bool
) -> None:
    found = overridden(meetings(views), 3)
    assert found is not None
    assert (found.text, found.is_sure) == (text, is_sure)


def in_group(number: int, size: int, **used: str) -> RankView:
    """Return a rank in a group of `size` ranks, which waits in a collective."""
    return replace(rank(number, is_argument=False, frames=IN_ALL_REDUCE, **used), groups=(default_group(size),))


FIRST_UNKNOWN = "the values of ranks 0-1 are unknown"
IMPORTS = (Frame("find_spec", "<frozen importlib._bootstrap_external>", 1), Frame("<module>", "/job/train.py", 2))


@pytest.mark.parametrize(
    ("views", "text", "is_sure", "named"),
    [
        ([rank(0, WORLD_SIZE="4"), rank(1, frames=IMPORTS), rank(2, frames=IMPORTS)],
         "rank 0 on n00 uses WORLD_SIZE=4, but the run's is 3; the values of ranks 1-2 are unknown", False, ()),
        ([rank(0, frames=TRAINS), rank(1, WORLD_SIZE="4"), rank(2, WORLD_SIZE="4")],
         "ranks 1-2 on n[01-02] use WORLD_SIZE=4, but the run's is 3; the values of rank 0 are unknown", False, ()),
        ([rank(0, MASTER_PORT="23459", WORLD_SIZE="4"), in_group(1, 3), in_group(2, 3)],
         "rank 0 on n00 uses WORLD_SIZE=4, but the run's is 3", True, (0,)),
        ([rank(0, MASTER_PORT="23459"), in_group(1, 3), in_group(2, 3)],
         "rank 0 on n00 uses MASTER_PORT=23459, but the run's is 29500; the values of ranks 1-2 are unknown", False,
         ()),
        ([rank(each, MASTER_ADDR=f"file:///job/meet{each}", is_argument=True) for each in range(3)],
         "rank 0 on n00 passes address file:///job/meet0 to init_process_group, but the run's is 10.0.0.1", True, ()),
        ([rank(each, MASTER_PORT="23459", WORLD_SIZE="4") for each in range(3)],
         "ranks 0-2 on n[00-02] use WORLD_SIZE=4, but the run's is 3", True, ()),
        ([rank(2, WORLD_SIZE="2", is_argument=True)],
         f"rank 2 on n02 passes world size 2 to init_process_group, but the run's is 3; {FIRST_UNKNOWN}", True, ()),
        ([in_group(0, 3), in_group(1, 2, WORLD_SIZE="2"), in_group(2, 3)],
         "rank 1 on n01 uses WORLD_SIZE=2, but the run's is 3", True, (1,)),
        ([in_group(0, 2, WORLD_SIZE="2"), in_group(1, 3), in_group(2, 3)],
         "rank 0 on n00 uses WORLD_SIZE=2, but the run's is 3", True, (0,)),
    ],
    ids=["others import", "others elsewhere", "others have met", "others met somewhere", "a file each",
         "all at one other place", "size too small", "a group lacks rank 1", "a group lacks rank 0"],
)  # fmt: skip
def test_a_rank_is_named_only_if_others_are_known_to_use_the_values_that_they_got(
    views: list[RankView], text: str, *, is_sure: bool, named: tuple[int, ...]
) -> None:
    found = overridden(meetings(views), 3)
    assert found is not None
    assert (found.text, found.is_sure, found.named) == (text, is_sure, named)
    assert judge_hang(evidence(views, 3))[0].ranks == (named if is_sure else ())


def test_ranks_that_have_met_are_not_judged_by_their_variables() -> None:
    assert overridden(meetings(rank(each, frames=TRAINS, WORLD_SIZE="4") for each in range(3)), 3) is None


def test_a_hang_at_the_start_names_the_rank_that_waits_elsewhere() -> None:
    found = judge_hang(evidence([rank(0), rank(1, MASTER_ADDR="127.0.0.1"), rank(2)]))[0]
    assert (found.kind, found.confidence, found.ranks) == (HangKind.OVERRIDDEN, Confidence.HIGH, (1,))
    assert found.hint.endswith("grep -rnE 'MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|init_process_group' .")


RANKS = {"n00": frozenset({0}), "n01": frozenset({1}), "n02": frozenset({2})}
WAITED = "timed out waiting for other ranks"


def victim(number: int, *lines: str) -> RankEnd:
    return RankEnd(number, f"n{number:02}", 1, None, 100.0, stopped=False, symptom=WAITED, last_lines=lines)


def test_the_verdict_on_victims_of_another_address_names_it() -> None:
    views = {each.rank: each for each in (rank(0), rank(1, MASTER_ADDR="127.0.0.1"), rank(2))}
    found = judge(Evidence(RANKS, (victim(0), victim(1), victim(2)), quiet=views, address="10.0.0.1"))
    assert found is not None
    assert found.reason == (
        "rank 1 on n01 uses MASTER_ADDR=127.0.0.1, but the run's is 10.0.0.1; "
        "rank 0 on n00 timed out waiting for other ranks"
    )
    assert (found.named, found.causes[0].confidence) == (Named("n01", 1), Certainty.LIKELY)


def test_the_address_in_the_text_of_a_failure_is_compared() -> None:
    line = "DistNetworkError: The client socket has timed out after 60000ms while trying to connect to ({}, 29500)."
    ends = (victim(0), victim(1, line.format("127.0.0.1")), victim(2, line.format("10.0.0.1")))
    found = judge(Evidence(RANKS, ends, address="10.0.0.1"))
    assert found is not None
    text = "rank 1 on n01 connects to the store at 127.0.0.1, but the run's MASTER_ADDR is 10.0.0.1"
    assert found.reason.startswith(text)
    assert found.named == Named("n01", 1)
    for unknown in ((victim(0), ends[1]), (victim(0), ends[2])):
        assert judge(Evidence(RANKS, unknown, address="10.0.0.1")).named is None  # type: ignore[union-attr]


def test_a_failure_of_its_own_is_not_explained_by_variables() -> None:
    own = RankEnd(0, "n00", 1, None, 90.0, stopped=False, error="ValueError: no data")
    views = {each.rank: each for each in (rank(0), rank(1, MASTER_ADDR="127.0.0.1"), rank(2))}
    found = judge(Evidence(RANKS, (own, victim(1), victim(2)), quiet=views, address="10.0.0.1"))
    assert found is not None
    assert [each.kind for each in found.causes] == ["rank-failed"]


EADDRINUSE = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)
NOT_BELOW = "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/context.cc:23] rank < size. {}"
GONE = "lost the store or the rendezvous of the run"
"""Texts of torch 2.13 with gloo, recorded with each of these mistakes, and the symptom of ranks without a store."""


def end(number: int, error: str = "", *, symptom: str = "", code: int = 1, met: bool = False, **used: Any) -> RankEnd:
    """Return the end of a rank, `number` s after 100."""
    return RankEnd(
        number, f"n{number:02}", code, None, 100.0 + number, stopped=False, error=error, symptom=symptom,
        overrides=rank(number, **used).overrides, failed_to_meet=code != 0 and not met,
    )  # fmt: skip


def stopped(number: int) -> RankEnd:
    return RankEnd(number, f"n{number:02}", None, 15, 110.0, stopped=True)


@pytest.mark.parametrize(
    ("ends", "views", "text", "named"),
    [
        ((end(0, EADDRINUSE), stopped(1), stopped(2)), (rank(1, RANK="0"), rank(2)),
         "rank 1 on n01 uses RANK=0, but pylaunch gave it 1; rank 0 on n00 exited", Named("n01", 1)),
        ((end(1, EADDRINUSE, RANK="0"), end(2, EADDRINUSE, RANK="0"), stopped(0)), (rank(0),),
         "ranks 1-2 on n[01-02] use RANK=0 (rank 1), but pylaunch gave it 1; rank 1 on n01 exited", None),
        ((end(1, NOT_BELOW.format("3 vs 3"), RANK="3"), stopped(0), stopped(2)), (rank(0), rank(2)),
         "rank 1 on n01 uses RANK=3, but pylaunch gave it 1; rank 1 on n01 exited", Named("n01", 1)),
        ((end(2, NOT_BELOW.format("2 vs 2"), WORLD_SIZE="2"), end(0, code=0, WORLD_SIZE="2"),
          end(1, code=0, WORLD_SIZE="2")), (),
         "ranks 0-2 on n[00-02] use WORLD_SIZE=2, but the run's is 3; rank 2 on n02 exited", None),
        (tuple(end(each, symptom=GONE, RANK=str(each + 1)) for each in range(3)), (),
         "ranks 0-2 on n[00-02] use RANK=1 (rank 0), but pylaunch gave it 0; rank 0 on n00 lost", None),
        (tuple(end(each, "ValueError: TCPStore world size cannot be 0", WORLD_SIZE="0") for each in range(3)), (),
         "ranks 0-2 on n[00-02] use WORLD_SIZE=0, but the run's is 3; rank 0 on n00 exited", None),
        ((end(1, "ValueError: invalid literal for int() with base 10: 'abc'", MASTER_PORT="abc"), stopped(0),
          stopped(2)), (rank(0), rank(2)),
         "rank 1 on n01 uses MASTER_PORT=abc, but the run's is 29500; rank 1 on n01 exited", Named("n01", 1)),
        ((end(2, symptom=GONE), end(1, symptom=GONE, MASTER_PORT="1"), end(0, symptom=WAITED)), (),
         "rank 1 on n01 uses MASTER_PORT=1, but the run's is 29500; rank 0 on n00 timed out", Named("n01", 1)),
    ],
    ids=["the true rank 0 is the victim", "all are rank 0", "rank beyond the size", "size too small",
         "no rank is 0", "size 0", "no port", "wrong port"],
)  # fmt: skip
def test_ranks_that_die_of_other_numbers_at_once_are_explained_by_them(
    ends: tuple[RankEnd, ...], views: tuple[RankView, ...], text: str, named: Named | None
) -> None:
    states = {each.host: (RankState(each.rank or 0, "S", None, None),) for each in ends if each.stopped}
    found = judge(Evidence(RANKS, ends, states, views=views, address="10.0.0.1"))
    assert found is not None
    assert found.reason.startswith(text)
    assert (found.named, found.causes[0].confidence) == (named, Certainty.LIKELY)


@pytest.mark.parametrize(
    ("ends", "views"),
    [
        (tuple(end(each, EADDRINUSE, RANK="0", WORLD_SIZE="1") for each in range(3)), ()),
        ((end(0, EADDRINUSE), stopped(1), stopped(2)), ()),
        ((end(0, "KeyError: 'x'", met=True, RANK="2"), stopped(1), end(2, symptom=WAITED, met=True, RANK="0")), ()),
    ],
    ids=["each rank alone", "another program has the port", "a failure later, in another order"],
)  # fmt: skip
def test_ranks_with_values_that_can_meet_are_not_the_cause(
    ends: tuple[RankEnd, ...], views: tuple[RankView, ...]
) -> None:
    states = {each.host: (RankState(each.rank or 0, "S", None, None),) for each in ends if each.stopped}
    found = judge(Evidence(RANKS, ends, states, views=views, address="10.0.0.1"))
    assert found is not None
    assert found.causes[0].kind == "rank-failed"
