"""Values and steps that ranks print in lines of one form: what differs explains why they wait for each other."""

import pytest

from tests.features.explain.judgement.verdicts import first_cause, verdict_on

SIZES = "what():  [enforce fail at gloo/transport/tcp/pair.cc:464] op.preamble.length <= op.nbytes. 28 vs 4\n"
LATE = (
    "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete\n"
)

JOINED = "torch.distributed.DistStoreError: Timed out after 11 seconds waiting for clients. 1/2 clients joined.\n"


def raised(rank: int, error: str) -> str:
    trace = f'[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "t.py", line 9, in <module>\n'
    return f"{trace}[rank{rank}]: {error}"


def all_late(ranks: int) -> str:
    return "".join(raised(rank, LATE) for rank in range(ranks))


def say(*lines: str, ranks: int = 3, other: dict[int, str] | None = None) -> str:
    """Return lines of all ranks; `other` has the first line of the ranks that print another one."""
    first = {rank: (other or {}).get(rank, lines[0]) for rank in range(ranks)}
    return "".join(f"[rank {rank}] {line}\n" for rank in range(ranks) for line in (first[rank], *lines[1:]) if line)


def steps(rank: int, *numbers: int, total: str = "") -> str:
    return "".join(
        f"2026-11-28 01:40:07,437 [INFO] [rank {rank}] sft: step {number}{total} loss 0.1\n" for number in numbers
    )


@pytest.mark.parametrize(
    ("log", "cause", "ranks"),
    [
        (say("vocab 32000", other={1: "vocab 32064"}) + SIZES, "collective-mismatch", (1,)),
        (say("config adapters=3 lr=0.1", other={2: "config adapters=2 lr=0.1"}) + SIZES, "collective-mismatch", (2,)),
        (say("restored step 200", other={2: "restored step 180"}) + raised(2, "AssertionError: sync names mismatch\n"),
         "model-differs", (2,)),
        ("[rank 0] master 10.0.0.1:29500\n[rank 1] master 10.0.0.1:29501\n" + raised(0, JOINED), "launcher-config", ()),
        (steps(0, *range(9)) + steps(1, 0, 1, 2, 4, 5) + "[rank 1] batch 3: no labels, skipping\n" + all_late(2),
         "uneven-data", (1,)),
        (steps(0, 0, 9, 18, total="/20") + steps(1, 0, 9, 18, 27, total="/40") + steps(2, 0, 9, 18, total="/40")
         + all_late(3), "uneven-data", (0,)),
        (steps(0, 0, 3, 6, 9) + steps(1, 0, 3, 6, 9) + steps(2, 0, 3, 9, 12) + all_late(3), "uneven-data", (2,)),
        (steps(0, *range(9)) + steps(1, *range(6)) + "[rank 1] epoch 0 finished\n" + all_late(2), "uneven-data", (1,)),
        (say("Num batches each epoch = 9", other={2: "Num batches each epoch = 8"}) + all_late(3), "uneven-data", (2,)),
    ],
    ids=["size", "setting", "state", "port", "skipped batch", "totals", "left-out step", "left the loop", "amount"],
)  # fmt: skip
def test_what_one_rank_prints_otherwise_is_the_cause_of_waits_and_mismatches(
    log: str, cause: str, ranks: tuple[int, ...]
) -> None:
    first = first_cause(log)
    assert (first.cause.id, first.ranks) == (cause, ranks)


@pytest.mark.parametrize(
    "log",
    [
        say("vocab 32000", other={1: "vocab 32064"}) + "training finished\n",
        say("loaded in 3.5 s", other={1: "loaded in 4.5 s"}) + SIZES,
        say("pid 4711", "free memory 120", other={0: "pid 4712"}) + SIZES,
        say("host=n1 size=4", "pid 7 5", other={1: "host= size=4", 2: "pid # 5"}) + SIZES,
        say("serving metrics on 10.0.0.1:9100", other={1: "serving metrics on 10.0.0.2:9101"}) + raised(0, JOINED),
        say("restored step 200", other={2: "restored step 180"}) + raised(2, "ValueError: shape mismatch\n"),
        "[rank 0] run_id=3fa1\n[rank 1] run_id=9bc2\n" + raised(1, "KeyError: 'text'\n"),
        steps(0, 0, 3, 6, 9) + steps(1, 0, 3, 6) + steps(2, 0, 3, 6, 9) + raised(1, "KeyError: 'text'\n"),
        steps(0, 0, 3, 6) + steps(1, 0, 3, 6) + "[rank 0] epoch 0 finished\n" + all_late(2),
        steps(0, 0, 3, 6) + steps(1, 0, 3, 6) + "[rank 0] batch plots: skipping\n" + all_late(2),
    ],
    ids=[
        "a healthy run",
        "measured time",
        "process",
        "no value",
        "own address",
        "a mismatch within a rank",
        "ids of other things",
        "an error of one rank",
        "an end that rank 0 alone logs",
        "a note that rank 0 alone logs",
    ],
)
def test_values_that_may_differ_are_no_cause(log: str) -> None:
    assert not {each.cause.id for each in verdict_on(log).causes} & {"model-differs", "launcher-config", "uneven-data"}
    assert all(each.ranks == () for each in verdict_on(log).causes if each.cause.id == "collective-mismatch")


STOOD = "".join(f"[rank {rank}] step {step} loss 2.0\n" for step in range(3) for rank in range(3))
SAVES = STOOD + "[rank 1] writing shard to /mnt/ckpt/1.pt\n"
WAITS = SAVES + "[rank 0] waiting at the barrier\n[rank 2] waiting at the barrier\n"
LIMIT = "=>> PBS: job killed: walltime 612 exceeded limit 600\n"
SIGNAL = "W1128 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal, shutting down workers\n"
SIGNAL += "torch.distributed.elastic.multiprocessing.api.SignalException: Process 13931 got signal: 15\n"


def timed(log: str) -> str:
    lines = log.splitlines()
    return "".join(f"2026-11-28 05:00:{at:02d} INFO {line}\n" for at, line in enumerate(lines))


@pytest.mark.parametrize(
    ("log", "cause", "is_failure"),
    [
        (SAVES + LIMIT, "data-wait", True),
        (SAVES.replace("writing shard", "entering phase b") + LIMIT, "rank-absent", True),
        (STOOD + "[rank 0] lr is now 0.1\n" + LIMIT, "scheduler-stop", True),
        (WAITS + SIGNAL, "data-wait", True),
        (timed(SAVES) + "2026-11-28 05:10:00 " + SIGNAL, "data-wait", True),
        (SAVES + SIGNAL, "stopped-from-outside", True),
        (WAITS, "data-wait", False),
        (WAITS.replace("[rank 2] waiting", "[rank 2] loading"), None, False),
        (WAITS + "launcher: training finished\n", None, False),
        (WAITS.replace("waiting", "all steps completed, waiting") + "rc=0\n", None, False),
    ],
    ids=[
        "time limit",
        "another line",
        "a line of rank 0 alone",
        "signal while others wait",
        "signal long after",
        "signal",
        "a log that ends",
        "two at work",
        "a good end",
        "exit status 0",
    ],
)
def test_the_rank_that_stood_at_another_line_than_all_others_held_them_up(
    log: str, cause: str | None, is_failure: bool
) -> None:
    verdict = verdict_on(log)
    first = verdict.first
    assert (None if first is None else first.cause.id, verdict.failed) == (cause, is_failure)
    assert first is None or first.ranks == ((1,) if cause in ("data-wait", "rank-absent") else ())
