"""Exceptions that a program survived, tracebacks that a log cuts off, and attempts before the last one."""

import pytest

from tests.features.explain.judgement.verdicts import first_cause, scanned, verdict_on


def raised(error: str, *, line: int = 16, prefix: str = "") -> str:
    lines = ("Traceback (most recent call last):", f'  File "/srv/train.py", line {line}, in main', "    call()", error)
    return "".join(f"{prefix}{each}\n" for each in lines)


MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/data/meta.json'"
LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.4]:14766. This is typically"
START = "2026-11-28 01:15:13,644 INFO [rank0] starting\n2026-11-28 01:15:13,644 INFO [rank1] starting\n"
GOES_ON = "2026-11-28 01:15:14,664 INFO [rank1] model built\n"


@pytest.mark.parametrize("level", ["WARNING [rank1] cache unreadable", "ERROR [rank1] cache unreadable, skipped"])
def test_an_exception_that_a_logger_printed_and_the_rank_survived_is_not_the_cause(level: str) -> None:
    logged = f"{START}2026-11-28 01:15:13,654 {level}\n{raised(MISSING)}"
    found = first_cause(logged + GOES_ON + raised(LOST, prefix="[rank0]: "))
    assert (found.cause.id, found.ranks) == ("rank-silent-end", (1,))
    fatal = first_cause(logged)
    assert fatal.cause.id == "file-missing", "nothing of the rank follows: it ended with it"


def test_a_warning_does_not_excuse_the_exception_that_ends_the_rank() -> None:
    warned = f"{START}2026-11-28 01:15:13,654 WARNING [rank1] attempt 2 of 3 failed; retrying\n{raised(MISSING)}"
    found = first_cause(warned + GOES_ON + raised("IndexError: shard 7 of 7", line=40, prefix="[rank1]: "))
    assert "IndexError: shard 7 of 7" in found.text


def test_two_tracebacks_in_a_row_that_are_not_chained_are_two() -> None:
    found = scanned(raised("KeyError: 'a'") + raised("KeyError: 'b'", line=40))
    assert [[each.text for each in unit.chain] for unit in found.exceptions] == [["KeyError: 'a'"], ["KeyError: 'b'"]]


@pytest.mark.parametrize("prefix", ["", "[rank3]: "])
def test_a_traceback_that_the_log_cuts_off_is_a_failure(prefix: str) -> None:
    text = "step 3 loss 0.5\n" + "".join(raised("", prefix=prefix).splitlines(keepends=True)[:3])
    found = verdict_on(text)
    assert found.abstains
    assert found.first is not None
    assert "the log ends before it" in found.first.text
    assert "/srv/train.py:16" in found.first.text


AGAIN = "[default] Worker group FAILED. 1/1 attempts left; will restart worker group\n"
FULL = "OSError: [Errno 28] No space left on device: '/scratch/1'"


def test_the_failure_of_the_last_attempt_counts() -> None:
    twice = raised(MISSING, prefix="[rank1]: ") + AGAIN + raised(FULL, prefix="[rank2]: ")
    found = first_cause(twice)
    assert (found.cause.id, found.ranks) == ("storage-full", (2,))
    victims = raised(MISSING, prefix="[rank1]: ") + AGAIN + raised(LOST, prefix="[rank2]: ")
    older = first_cause(victims)
    assert older.cause.id == "file-missing", "the last attempt has victims alone"


def test_a_restart_that_succeeded_is_healthy() -> None:
    text = raised(MISSING, prefix="[rank1]: ") + AGAIN + "step 4 loss 0.2\nfinished\n"
    found = verdict_on(text)
    assert (found.first, found.first_error, found.failed) == (None, None, False)


def test_a_rank_with_an_error_of_its_own_among_victims_is_named_with_it() -> None:
    own = "ERROR | rank 1 | no mirror has the weights\nINFO | rank 1 | releasing the lock\n"
    lost = "".join(raised(LOST, prefix=f"[rank{rank}]: ") for rank in (0, 2))
    found = first_cause("INFO | rank 0 | start\nINFO | rank 1 | start\nINFO | rank 2 | start\n" + own + lost)
    assert (found.cause.id, found.ranks) == ("unexplained", (1,))
    assert "its last line is 'INFO | rank 1 | releasing the lock'" in found.text
    assert "printed no error" not in found.text


FILLED = raised(FULL)
LONG_AGO = "rank 0: step 1\nrank 1: step 1\n" + "pad\n" * 30_000 + "rank 0: step 2\n"
NOT_SURVIVED = {
    "the end of another rank": FILLED + "rank 2 exited with code 0\n",
    "buffers flushed at the exit": FILLED + "rank 0: step 1\nrank 1: step 1\n",
    "a rank does not print again": f"rank 2: step 1\n{LONG_AGO}{FILLED}rank 0: step 3\nrank 1: step 3\n",
    "the next attempt starts": f"step 1 loss 2\n{FILLED}{AGAIN}starting\n",
    "no attempt is left": f"step 1 loss 2\n{FILLED}launcher: 0/3 attempts left\nbye\n",
}


@pytest.mark.parametrize("text", NOT_SURVIVED.values(), ids=NOT_SURVIVED)
def test_lines_around_a_fatal_error_do_not_excuse_it(text: str) -> None:
    found = first_cause(text)
    assert found.cause.id == "storage-full"


@pytest.mark.parametrize(
    "line",
    [
        "rank 0 is in pipeline stage 0, rank 1 is in pipeline stage 1",
        "rank 2 finished with 12 batches",
        "process 4 finished with status 3 of 4 shards",
        "Metadata already exists.",
    ],
)
def test_lines_of_healthy_ranks_are_no_failure(line: str) -> None:
    found = verdict_on(f"step 1 loss 3\n[rank 0] done\n{line}\n")
    assert (found.first, found.failed) == (None, False)


def test_a_signal_to_the_launcher_is_no_cause_of_a_run_that_may_have_hung() -> None:
    found = verdict_on(
        "W1128 05:03:18.604000 4 torch/distributed/elastic/agent/server/api.py:753] Received 2 death signal, shutting"
        " down workers\n"
    )
    assert found.first is not None
    assert (found.first.cause.id, found.abstains) == ("stopped-from-outside", True)


def test_a_script_that_succeeds_at_its_second_try_is_healthy() -> None:
    again = "run.sh: try 1 failed with 1, retrying\nrun.sh: try 2/3\n"
    text = raised(LOST, prefix="[rank0]: ") + again + "[0] training complete at step 40\nrun.sh: success on try 2\n"
    found = verdict_on(text)
    assert (found.first, found.failed) == (None, False)
