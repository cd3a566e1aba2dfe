"""Exceptions that a program survived, tracebacks that a log cuts off, and attempts before the last one."""

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from tests.features.explain.judgement.verdicts import first_cause, named_in, scanned, verdict_on


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


def test_before_a_traceback_that_the_log_cuts_off_the_error_that_a_logger_printed_is_the_first_one() -> None:
    cut = "".join(raised("", line=8).splitlines(keepends=True)[:2]) + "    raise exception\n"
    found = verdict_on(f"2026-11-28 01:15:13 ERROR sync.py:4 -- Caught a fault: no sync. Retrying in 1 s\n{cut}")
    assert found.first_error is not None
    assert "Caught a fault" in found.first_error.evidence.text


def test_a_first_error_is_shown_with_the_lines_that_continue_it() -> None:
    found = verdict_on("Exception has occurred: AttributeError\n'Plan' object has no attribute 'depth'\n").first_error
    assert found is not None
    assert found.evidence.text.endswith("'Plan' object has no attribute 'depth'")


@pytest.mark.parametrize(
    "line",
    [
        "** orbit.XlaRuntimeError: RESO**URCE_EXHAUSTED: Ran out of memory in memory space hbm.",
        "     Allocation type: HLO temp\n     ==========================\n\n        TPU compilation failed",
    ],
)
def test_a_report_of_xla_about_the_memory_of_a_device_is_read_without_its_status(line: str) -> None:
    assert named_in(line) == "gpu-memory"


@pytest.mark.parametrize(
    ("frame", "error", "confidence"),
    [
        ("", "KeyError: 'speaker-12'", Confidence.MEDIUM),
        ("/opt/env/lib/python3.11/site-packages/rocket/core.py", "UsageError: no key", Confidence.MEDIUM),
        ("", "EOFError", Confidence.LOW),
    ],
)
def test_the_only_exception_is_an_error_of_the_program_unless_its_input_ended(
    frame: str, error: str, confidence: Confidence
) -> None:
    of_library = f'  File "{frame}", line 7, in launch\n    _launch()\n' if frame else ""
    found = first_cause(raised(error).replace(error, of_library + error))
    assert (found.cause.id, found.confidence) == ("program-error", confidence)


MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'merged.txt'"


def test_a_missing_file_is_a_consequence_of_an_exception_before_it() -> None:
    found = first_cause(
        raised("struct.error: unpack requires a buffer of 12 bytes") + "merging\n" + raised(MISSING, line=40)
    )
    assert (found.cause.id, found.signature) == ("program-error", "exception")
    alone = first_cause(raised(MISSING))
    assert (alone.cause.id, alone.confidence) == ("file-missing", Confidence.MEDIUM)


AGENT = (
    "E1128 01:38:10.020000 21536 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
    "local_rank: 1 (pid: {}) of binary: python\n"
)
AGAIN = "[default] Worker group FAILED. 1/1 attempts left; will restart worker group\n"
FULL = "OSError: [Errno 28] No space left on device: '/scratch/1'"


@pytest.mark.parametrize("first", [AGENT.format(7), AGAIN])
def test_the_failure_of_the_last_attempt_counts(first: str) -> None:
    twice = raised(MISSING, prefix="[rank1]: ") + first + raised(FULL, prefix="[rank2]: ") + AGENT.format(9)
    found = first_cause(twice)
    assert (found.cause.id, found.ranks) == ("storage-full", (2,))
    victims = raised(MISSING, prefix="[rank1]: ") + first + raised(LOST, prefix="[rank2]: ") + AGENT.format(9)
    older = first_cause(victims)
    assert older.cause.id == "file-missing", "the last attempt has victims alone"


def test_a_restart_that_succeeded_is_healthy() -> None:
    text = raised(MISSING, prefix="[rank1]: ") + AGAIN + "step 4 loss 0.2\nfinished\n"
    found = verdict_on(text)
    assert (found.first, found.first_error, found.failed) == (None, None, False)


JOINED = (
    "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, "
    "for key: store_based_barrier_key:1 (world_size=2, worker_count={}, timeout=0:30:00)"
)


@pytest.mark.parametrize(("count", "cause"), [(4, "file-missing"), (3, "duplicate-launch")])
def test_the_ranks_of_an_earlier_attempt_are_no_second_launch(count: int, cause: str) -> None:
    again = f"{AGAIN}INFO:agent:[default] Rendezvous complete for workers. Result:\n"
    first = raised(MISSING.replace("[Errno 2] No", "no"))
    assert first_cause(first + raised(JOINED.format(count), line=40) + again).cause.id == cause


def test_an_uncaught_exception_right_after_a_warning_of_its_rank_is_fatal() -> None:
    warned = f"{START}2026-11-28 01:15:13,654 WARNING [rank1] slow step\n"
    at_exit = (
        "[rank1]:[W1128 01:15:14.000000000 ProcessGroupGloo.cpp:1] Warning: destroy_process_group() was not called\n"
    )
    for text in (raised(FULL, prefix="[rank1]: "), raised(FULL) + at_exit, raised(FULL, prefix="[rank1]: ") + GOES_ON):
        found = first_cause(warned + text)
        assert found.cause.id == "storage-full"


def test_an_exception_after_which_all_ranks_go_on_ended_none() -> None:
    text = "rank 0: step 1\nrank 1: step 1\n" + raised("ValueError: batch of 64 does not fit")
    found = verdict_on(text + "rank 0: batch size 32\nrank 1: batch size 32\n")
    assert (found.first, found.first_error) == (None, None)
    one = first_cause(text + "rank 0: batch size 32\n")
    assert one.cause.id == "program-error"


def test_a_rank_with_an_error_of_its_own_among_victims_is_named_with_it() -> None:
    own = "ERROR | rank 1 | no mirror has the weights\nINFO | rank 1 | releasing the lock\n"
    lost = "".join(raised(LOST, prefix=f"[rank{rank}]: ") for rank in (0, 2))
    found = first_cause("INFO | rank 0 | start\nINFO | rank 1 | start\nINFO | rank 2 | start\n" + own + lost)
    assert (found.cause.id, found.ranks) == ("program-error", (1,))
    assert "its last error is 'ERROR | rank 1 | no mirror has the weights'" in found.text
    assert "printed no error" not in found.text


FILLED = raised(FULL)
LONG_AGO = "rank 0: step 1\nrank 1: step 1\n" + "pad\n" * 30_000 + "rank 0: step 2\n"
NOT_SURVIVED = {
    "the end of another rank": FILLED + "rank 2 exited with code 0\n",
    "the status of tee": FILLED + "exit=0\n",
    "an epilog": FILLED + "all done\nexit=0\n",
    "buffers flushed at the exit": FILLED + "rank 0: step 1\nrank 1: step 1\n",
    "a rank does not print again": f"rank 2: step 1\n{LONG_AGO}{FILLED}rank 0: step 3\nrank 1: step 3\n",
    "words of its message": "step 1 loss 2\n" + raised(f"{FULL}; skipped nothing") + "files are uploaded\n",
    "the log ends with the next attempt": f"step 1 loss 2\n{FILLED}{AGAIN}",
    "the next attempt starts": f"step 1 loss 2\n{FILLED}{AGAIN}starting\n",
    "no attempt is left": f"step 1 loss 2\n{FILLED}launcher: 0/3 attempts left\nbye\n",
    "no restart": f"step 1 loss 2\n{FILLED}not restarting all ranks\nbye\n",
}


@pytest.mark.parametrize("text", NOT_SURVIVED.values(), ids=NOT_SURVIVED)
def test_lines_around_a_fatal_error_do_not_excuse_it(text: str) -> None:
    found = first_cause(text)
    assert found.cause.id == "storage-full"


def test_a_warning_before_an_exception_with_the_prefix_of_srun_on_each_line_does_not_excuse_it() -> None:
    ranks = "".join(f"{rank}: step 5\n" for rank in range(3))
    text = ranks + "2: WARNING: slow step\n" + raised(FULL, prefix="2: ") + "2: files are uploaded\n"
    found = first_cause(text)
    assert (found.cause.id, found.ranks) == ("storage-full", (2,))


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


def test_a_worker_of_a_data_loader_is_no_rank() -> None:
    assert verdict_on("step 1 loss 3\ndataloader worker 3 (pid 4) exited with -9\n").first is None


def test_retries_with_the_words_of_an_error_do_not_hide_it() -> None:
    retries = "".join(
        f"[rank 1] read of 1.bin failed (Transport endpoint is not connected), retry {at}\n" for at in range(9)
    )
    error = "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data/1.bin'"
    found = first_cause(retries + raised(error, prefix="[rank1]: ") + raised(LOST, prefix="[rank0]: "))
    assert (found.cause.id, found.ranks) == ("storage-stall", (1,))


def test_the_last_of_many_reports_counts_where_the_program_survived_the_first_ones() -> None:
    survived = "".join(f"rank 0: step {at}\n2026-11-28 01:15:13,644 ERROR skipped: {FULL}\n" for at in range(9))
    found = first_cause(survived + raised(FULL.replace("/scratch/1", "/scratch/9"), prefix="[rank0]: "))
    assert found.cause.id == "storage-full"
    assert any("/scratch/9" in each.text for each in found.evidence)


@pytest.mark.parametrize("clock", ["05:11:38 ", ""])
def test_an_exception_before_steps_with_a_time_was_survived(clock: str) -> None:
    lines = "monitor stopped:\n" + raised(MISSING)
    lines += "".join(f"INFO rank{rank}: iter {step}\n" for step in (0, 20, 40) for rank in range(3))
    lines += raised("IndexError: list index out of range", prefix="[rank2]: ") + raised(LOST, prefix="[rank1]: ")
    found = first_cause("".join(f"{clock}{line}\n" for line in lines.splitlines()))
    assert found.cause.id == ("program-error" if clock else "file-missing"), "prints may be flushed at the exit"


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


def test_the_exception_of_a_task_of_ray_is_after_that_of_its_driver() -> None:
    error = "ray.exceptions.RayTaskError(KeyError): ray::Worker.step() (pid=244, ip=10.0.0.1, actor_id=1e32)"
    text = raised(error, line=16) + "  File \"/srv/tune.py\", line 12, in step\n    return v[x]\nKeyError: '<unk>'\n"
    found = first_cause(text)
    assert (found.cause.id, found.text) == ("program-error", "KeyError: '<unk>' (/srv/tune.py:12)")


def test_a_guard_of_memory_names_the_process_of_the_rank_that_it_killed() -> None:
    guard = 'earlyoom[1]: sending SIGKILL to process 14 uid 1004 "python3": oom_score 1311\n'
    agent = f"E1128 04:59:31.8 8 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) {PID}"
    found = first_cause(f"rank 1: step 5\nrank 2: step 5\n{guard}{raised(LOST, prefix='[rank1]: ')}{agent}")
    assert (found.cause.id, found.ranks) == ("host-oom", (2,))


PID = "local_rank: 2 (pid: 14) of binary: /opt/bin/python3\n"


@pytest.mark.parametrize("rank", [2, 3])
def test_a_rank_of_the_first_attempt_leads_over_victims_of_the_restarted_one(rank: int) -> None:
    agent = "E1128 04:59:31.8 8 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {}) {}"
    first = f"rank 1: cpu EPYC\nrank {rank}: cpu E5\n{raised(LOST, prefix='[rank1]: ')}{agent.format(-4, PID)}"
    again = raised("RuntimeError: Gloo connectFullMesh failed with [pair.cc:152] timed out connecting: refused")
    found = first_cause(first + again + agent.format(1, PID))
    named = ("native-crash", (2,)) if rank == 2 else ("peer-lost", ())
    assert (found.cause.id, found.ranks) == named, "a local rank that printed no line may be another one"
