"""Time-outs of collectives: a deviating minority is named in any order of files and lines; no victim is."""

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest

from pylaunch.verdict.logs.judgement import LogCause
from tests.unit.verdict.logs.judged import judged

Logs = Mapping[int, Sequence[str]]
"""Lines by rank."""


def watchdog(rank: int, number: int, operation: str, *, elements: int = 64, prefix: bool = True) -> str:
    """Line of a time-out as torch 2.1 to 2.13 prints it; without the prefix as torch 2.0 does."""
    mark = (
        f"[rank{rank}]:[E626 06:24:44.90388191{rank % 10} ProcessGroupNCCL.cpp:616] "
        if prefix
        else "[E ProcessGroupNCCL.cpp:475] "
    )
    work = f"WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=600000)"
    return (
        f"{mark}[Rank {rank}] Watchdog caught collective operation timeout: {work} "
        "ran for 600020 milliseconds before timing out."
    )


def status(rank: int, enqueued: int, completed: int, *, group: str = "ID 0 PG GUID 0(default_pg)") -> str:
    """Line of the progress of a rank, as torch 2.6 and newer print it."""
    return (
        f"[rank{rank}]:[E626 06:24:44.90645762{rank % 10} ProcessGroupNCCL.cpp:2268] [PG {group} Rank {rank}]  failure "
        f"detected by watchdog at work sequence id: {completed + 1} PG status: last enqueued work: {enqueued}, "
        f"last completed work: {completed}"
    )


def dumped(rank: int, enqueued: int, completed: int, *, first: int = 0) -> str:
    """Line of a rank that another one notified of its time-out."""
    return (
        f"[rank{rank}]:[E626 06:24:45.10000000{rank % 10} ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) "
        f"Rank {rank}] Received a dump signal due to a collective timeout from rank {first} and we will try our best "
        f"to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."
    )


def timed_out(
    rank: int, number: int, operation: str, *, elements: int = 64, group: str = "ID 0 PG GUID 0(default_pg)"
) -> list[str]:
    return [watchdog(rank, number, operation, elements=elements), status(rank, number, number - 1, group=group)]


def steps(rank: int) -> list[str]:
    return [f"[rank{rank}]: step {number} loss 0.5" for number in range(3)]


def of_ranks(logs: Logs) -> LogCause:
    """Judge one file for each rank."""
    return judged({f"rank_{rank}.log": lines for rank, lines in logs.items()})


def interleaved(logs: Logs, seed: int) -> list[str]:
    """Return the lines of all ranks in one log; those of a rank stay in their order."""
    draw = random.Random(seed)
    left = {rank: list(lines) for rank, lines in logs.items()}
    order: list[str] = []
    while any(left.values()):
        order.append(left[draw.choice([rank for rank, lines in left.items() if lines])].pop(0))
    return order


BEHIND: Logs = {0: timed_out(0, 412, "ALLREDUCE"), 1: timed_out(1, 412, "ALLREDUCE"), 2: timed_out(2, 411, "ALLGATHER")}
OTHER: Logs = {0: timed_out(0, 412, "ALLREDUCE"), 1: timed_out(1, 412, "BROADCAST"), 2: timed_out(2, 412, "ALLREDUCE")}
LATE: Logs = {
    0: timed_out(0, 412, "ALLREDUCE"),
    1: [dumped(1, 411, 411)],
    2: timed_out(2, 412, "ALLREDUCE"),
    3: timed_out(3, 412, "ALLREDUCE"),
}
SILENT: Logs = {**{rank: timed_out(rank, 412, "ALLREDUCE") for rank in (0, 1, 3)}, 2: steps(2)}
NAMED = [
    pytest.param(BEHIND, "collective-mismatch", (2,), "411 ALLGATHER", id="behind in another operation"),
    pytest.param(OTHER, "collective-mismatch", (1,), "412 BROADCAST", id="another operation at the same number"),
    pytest.param(LATE, "rank-absent", (1,), "called collective 411 last", id="has not called it"),
    pytest.param(SILENT, "rank-absent", (2,), "its last line is 'step 2 loss 0.5'", id="silent"),
]


@pytest.mark.parametrize(("logs", "cause", "ranks", "shown"), NAMED)
def test_the_deviating_rank_is_named(logs: Logs, cause: str, ranks: tuple[int, ...], shown: str) -> None:
    found = of_ranks(logs)
    assert (found.cause.id, found.ranks) == (cause, ranks)
    assert shown in found.text


@pytest.mark.parametrize(("logs", "cause", "ranks", "shown"), NAMED)
def test_one_log_of_all_ranks_says_the_same(logs: Logs, cause: str, ranks: tuple[int, ...], shown: str) -> None:
    usual = of_ranks(logs)
    for seed in range(20):
        found = judged({"all.log": interleaved(logs, seed)})
        assert (found.cause, found.ranks, found.text) == (usual.cause, usual.ranks, usual.text)


@pytest.mark.parametrize("operation", ["ALLREDUCE", "_ALLGATHER_BASE", "BROADCAST"])
@pytest.mark.parametrize("world", [2, 3, 8])
def test_ranks_that_all_wait_in_the_same_collective_are_all_victims(operation: str, world: int) -> None:
    found = of_ranks({rank: timed_out(rank, 412, operation) for rank in range(world)})
    assert (found.cause.id, found.ranks) == ("rank-absent", ())
    assert "no rank that is missing" in found.text


ABSTAINS: dict[str, Logs] = {
    "two ranks at two numbers": {0: timed_out(0, 412, "ALLREDUCE"), 1: timed_out(1, 411, "ALLGATHER")},
    "no majority": {rank: timed_out(rank, 412 - rank % 2, ("ALLREDUCE", "ALLGATHER")[rank % 2]) for rank in range(4)},
    "behind in a broadcast, which ends earlier on some ranks": {
        0: timed_out(0, 412, "ALLREDUCE"), 1: timed_out(1, 412, "ALLREDUCE"), 2: timed_out(2, 411, "BROADCAST"),
    },
    "one rank ahead": {
        0: timed_out(0, 412, "ALLREDUCE"), 1: timed_out(1, 412, "ALLREDUCE"), 2: timed_out(2, 413, "ALLGATHER"),
    },
    "numbers of two groups": {
        0: timed_out(0, 412, "ALLREDUCE"),
        1: timed_out(1, 412, "ALLREDUCE"),
        2: timed_out(2, 411, "ALLGATHER", group="ID 1 PG GUID 7(tp)"),
    },
    "behind in one group because of another": {
        0: timed_out(0, 412, "ALLREDUCE"),
        1: timed_out(1, 412, "ALLREDUCE"),
        2: [*timed_out(2, 411, "ALLGATHER"), *timed_out(2, 90, "ALLREDUCE", group="ID 1 PG GUID 7(tp)")],
        3: timed_out(3, 412, "ALLREDUCE"),
    },
    "called fewer collectives ahead, but the one that all wait in": {
        0: [watchdog(0, 808, "ALLREDUCE"), status(0, 811, 807)],
        1: [watchdog(1, 808, "ALLREDUCE"), status(1, 811, 807)],
        2: [watchdog(2, 808, "ALLREDUCE"), status(2, 809, 807)],
    },
    "sizes of an all-to-all differ as they may": {
        rank: timed_out(rank, 412, "ALLTOALL_BASE", elements=64 + (rank == 2)) for rank in range(3)
    },
    "early numbers without a group": {
        0: [watchdog(0, 5, "ALLREDUCE")], 1: [watchdog(1, 5, "ALLREDUCE")], 2: [watchdog(2, 3, "ALLGATHER")],
    },
    "one rank in two groups that the lines do not name": {
        0: [watchdog(0, 412, "ALLREDUCE"), watchdog(0, 399, "ALLGATHER")],
        1: [watchdog(1, 412, "ALLREDUCE")],
        2: [watchdog(2, 411, "ALLGATHER")],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ABSTAINS)
def test_nobody_is_named_where_the_minority_may_be_a_victim(name: str) -> None:
    logs = ABSTAINS[name]
    for order in itertools.permutations(logs):
        found = of_ranks({rank: logs[rank] for rank in order})
        assert found.ranks == ()
        assert found.confidence.value == "low"


@pytest.mark.parametrize("other", [("BROADCAST", 64), ("ALLREDUCE", 65)])
def test_ranks_in_different_calls_without_a_majority_are_not_said_to_wait_together(other: tuple[str, int]) -> None:
    name, elements = other
    found = of_ranks({0: [watchdog(0, 12, "ALLREDUCE")], 1: [watchdog(1, 12, name, elements=elements)]})
    assert (found.cause.id, found.ranks) == ("collective-mismatch", ())


def test_a_rank_whose_log_is_missing_is_not_called_silent() -> None:
    logs = {rank: lines for rank, lines in SILENT.items() if rank != 2}
    assert of_ranks(logs).ranks == ()


def test_a_rank_that_reports_a_lost_connection_is_not_silent() -> None:
    lost = ["[rank2]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:40000"]
    assert of_ranks({**SILENT, 2: lost}).ranks == ()


def test_a_rank_is_not_silent_about_a_group_that_it_may_not_belong_to() -> None:
    group = "ID 1 PG GUID 7(tp)"
    logs = {rank: timed_out(rank, 412, "ALLREDUCE", group=group) for rank in (0, 1, 3)}
    assert of_ranks({**logs, 2: steps(2)}).ranks == ()


def test_gloo_ranks_that_timed_out_leave_the_silent_one() -> None:
    where = "[gloo/transport/tcp/unbound_buffer.cc:81]"
    line = f"RuntimeError: {where} Timed out waiting 60000ms for recv operation to complete"
    logs = {rank: [f"[rank{rank}]: {line}"] for rank in (0, 2, 3)}
    assert of_ranks({**logs, 1: steps(1)}).ranks == (1,)
    assert of_ranks(logs).ranks == ()
    assert of_ranks({**logs, 1: [f"[rank1]: {line}"]}).ranks == ()


def test_lines_of_older_versions_without_a_group_name_nobody() -> None:
    logs = {rank: [watchdog(rank, 412, "ALLREDUCE", prefix=False)] for rank in (0, 1)}
    found = of_ranks({**logs, 2: [watchdog(2, 411, "ALLGATHER", prefix=False)]})
    assert (found.ranks, found.confidence.value) == ((), "low")
