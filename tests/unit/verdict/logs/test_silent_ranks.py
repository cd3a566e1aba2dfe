"""Rank behind victims: the one without an error is named with its last line, and no victim is."""

import itertools

import pytest

from pylaunch.verdict.logs.judgement import LogCause
from pylaunch.verdict.logs.line import LinePrefixes, Origin
from tests.unit.verdict.logs.judged import judged

LOST = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:14766. "
    "This is typically caused by a remote worker crashing."
)
LATE = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete"
STEP = "step 3 loss 0.25"


def raised(rank: int, line: int, call: str, error: str) -> list[str]:
    """Return the lines of an exception in a collective, as torch prints it."""
    frames = (
        "Traceback (most recent call last):",
        f'  File "/srv/train.py", line {line}, in main',
        f"    dist.{call}(x)",
        '  File "/opt/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83, in wrapper',
        "    return func(*args, **kwargs)",
        f'  File "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in {call}',
        "    work.wait()",
        error,
    )
    return [f"[rank{rank}]: {each}" for each in frames]


def of_rank(last: str, *, rank: int = 2, error: str = LOST) -> LogCause:
    """Judge the logs of four ranks, of which `rank` ends with the line `last` and the others with `error`."""
    logs = {each: [STEP, *raised(each, 14, "all_reduce", error)] for each in range(4)}
    return judged({f"{each}.log": [STEP, last] if each == rank else lines for each, lines in logs.items()})


@pytest.mark.parametrize(
    ("last", "error", "cause"),
    [
        ("training finished", LOST, "uneven-data"),
        ("reading shard 000117.tar", LATE, "rank-absent"),
        ("finished batch 3", LOST, "rank-silent-end"),
        ("got SIGTERM, leaving after step 41", LOST, "stopped-from-outside"),
        ("reading shard 000117.tar", "ring.PeerLost: peer 2 closed the ring", "rank-silent-end"),
    ],
)
def test_the_only_rank_without_an_error_is_named_with_its_last_line(last: str, error: str, cause: str) -> None:
    found = of_rank(last, error=error)
    assert (found.cause.id, found.ranks, found.confidence.value) == (cause, (2,), "medium")
    assert last in found.text
    assert ("in order" in found.text) == (cause == "uneven-data")


@pytest.mark.parametrize("line", ["saving checkpoint to /ckpt/3", "Downloading tokenizer", "Map:  38%|###  | 29/76"])
def test_rank_0_that_works_while_the_others_wait_works_alone(line: str) -> None:
    assert of_rank(line, rank=0, error=LATE).cause.id == "rank0-long-work"
    assert of_rank(line, rank=1, error=LATE).cause.id == "rank-absent"
    assert of_rank(line, rank=0, error=LOST).cause.id == "rank-silent-end", "a rank that is gone works no longer"


def test_of_two_ranks_without_an_error_none_is_named() -> None:
    logs = {f"{rank}.log": [STEP, *raised(rank, 14, "all_reduce", LOST)] for rank in (0, 3)}
    assert judged({**logs, "1.log": [STEP], "2.log": [STEP]}).ranks == ()


@pytest.mark.parametrize("error", [LATE, LOST])
def test_ranks_at_one_line_or_without_a_timeout_disagree_about_nothing(error: str) -> None:
    at = {rank: 14 if error == LATE else 14 + rank for rank in range(4)}
    lines = itertools.chain(*(raised(rank, line, "all_reduce", error) for rank, line in at.items()))
    found = judged({"all.log": list(lines)})
    assert (found.cause.id, found.ranks) == ("rank-absent" if error == LATE else "peer-lost", ())


def test_the_rank_whose_key_others_wait_for_never_came() -> None:
    key = "torch.distributed.DistStoreError: wait timeout after 5000ms, keys: /default_pg/0//cpu//0/2"
    waits = {f"{rank}.log": raised(rank, 14, "init_process_group", key) for rank in (0, 1, 3)}
    found = judged({**waits, "2.log": ["building the index"]})
    assert (found.cause.id, found.ranks) == ("rank-missing", (2,))
    own = raised(2, 14, "init_process_group", key.replace("0/2", "0/0"))
    assert judged({**waits, "2.log": own}).ranks == (), "it waits itself"


REPORT = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_01:18:16
  host      : n1
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 11293)
  error_file: <N/A>
"""


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (7, "rank-silent-end"),
        (-9, "killed"),
        (-11, "native-crash"),
        (1, "rank-silent-end"),
    ],
)
def test_the_report_of_torchrun_decides_which_rank_ended_first(code: int, cause: str) -> None:
    lines = [*raised(0, 14, "all_reduce", LOST), *raised(2, 14, "all_reduce", LOST)]
    report = REPORT.format(code=code).splitlines()
    found = judged({"all.log": ["[rank1]: step 3", *lines, *report]})
    assert (found.cause.id, found.ranks) == (cause, (1,))
    assert {-12: "SIGUSR2", -14: "signal 14"}.get(code, "") in found.text


def test_a_victim_that_torchrun_saw_end_first_is_not_named() -> None:
    lines = [*raised(1, 14, "all_reduce", LOST), *raised(2, 14, "all_reduce", LOST)]
    assert judged({"all.log": [*lines, "[rank0]: step 3", *REPORT.format(code=1).splitlines()]}).ranks == (0,)
    anonymous = [line.partition(": ")[2] for line in lines]
    assert judged({"all.log": [*anonymous, *REPORT.format(code=1).splitlines()]}).ranks == ()


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank 2] saving", 2), ("(rank=2) saving", 2), ("RANK 2: saving", 2), ("rank 2 step 3 loss 0.1", 2),
        ("2026-11-28 01:15:13,944 WARNING [rank 1] cache", 1), ("2026-11-28 01:15:13,944 - INFO - [Rank 1] try", 1),
        ("INFO rank=3, step=2", 3), ("trainer: rank 3: hello", 3), ("rank 0: waiting for rank 2", 0),
        ("waiting for rank 2", None), ("rank 2 died", None), ("lost the connection to a worker (rank 2)", None),
        ("Timed out waiting for rank 2: 5 s", None),
    ],
)  # fmt: skip
def test_a_line_is_of_the_rank_with_which_it_begins(line: str, rank: int | None) -> None:
    assert LinePrefixes().parse(line, Origin()).origin.rank == rank


def test_a_kill_by_the_launcher_after_a_failure_is_no_cause() -> None:
    waits = [line for rank in (0, 1) for line in raised(rank, 14, "all_reduce", LATE)]
    listed = ["  exitcode  : -9 (pid: 22747)  (SIGKILL)", "  traceback : Signal 9 (SIGKILL) received by PID 22747"]
    found = judged({"all.log": ["[rank2]: step 30", *waits, *listed, *REPORT.format(code=1).splitlines()]})
    assert (found.cause.id, found.ranks) == ("rank-absent", (2,))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_rank_whose_launcher_signalled_it_after_the_failure_of_others_was_not_stopped_from_outside(
    *, is_first: bool
) -> None:
    own = ["[rank1]: received SIGTERM, exiting"]
    stop = ["W1128 05:01:44.4 7 torch/api.py:1028] Sending process 11 closing signal SIGTERM"]
    lost = [line for rank in (0, 2) for line in raised(rank, 14, "all_reduce", LOST)]
    found = judged({"all.log": [f"[rank1]: {STEP}", *(own + lost if is_first else lost + stop + own)]})
    assert (found.cause.id, found.ranks) == (("stopped-from-outside", (1,)) if is_first else ("peer-lost", ()))
