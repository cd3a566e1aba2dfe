"""Symptoms and root causes in recorded output of torch 2.13 and JAX 0.10."""

import signal
from pathlib import Path

import pytest

from pylaunch.agent.evidence.symptoms import (
    DIFFERED,
    DROPPED,
    LOST,
    OTHER_TASK,
    STORE,
    WAITED,
    ends_with_exception,
    last_exception,
    symptom,
    uncaught,
)

CASES = Path(__file__).parents[3] / "cases" / "rank_ends"
NCCL = (
    "[rank0]:[E1122 10:00:00.1 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: Work",
    "terminate called after throwing an instance of 'c10::DistBackendError'",
)
JAX = (
    "F1122 10:00:00.9 7 client.h:80] Terminating process because the JAX distributed service detected fatal errors.",
)


def recorded(name: str) -> list[str]:
    return [line for line in (CASES / f"{name}.txt").read_text().splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("name", "aborted", "expected"),
    [
        ("gloo-peer-exited", False, LOST),
        ("gloo-peer-killed", False, LOST),
        ("ray-worker-node-killed", False, LOST),
        ("gloo-recv-timeout", False, WAITED),
        ("gloo-send-timeout", False, WAITED),
        ("gloo-monitored-barrier", False, WAITED),
        ("gloo-size-differs", True, DIFFERED),
        ("gloo-own-exception-then-abort", True, ""),
        ("jax-peer-killed", True, LOST),
        ("jax-peer-killed-coordinator", True, LOST),
        ("jax-peer-stopped", True, OTHER_TASK),
        ("jax-own-exception", False, ""),
        ("runtime-rank-missing", False, WAITED),
    ],
)
def test_recorded_output_is_a_symptom_or_a_root_cause(name: str, aborted: bool, expected: str) -> None:
    code, signum = (None, signal.SIGABRT) if aborted else (1, None)
    assert symptom(code, signum, "", recorded(name)) == expected


def test_a_signal_other_than_sigabrt_is_a_root_cause_with_any_output() -> None:
    lines = recorded("gloo-peer-exited")
    assert symptom(None, signal.SIGKILL, "", lines) == symptom(None, signal.SIGSEGV, "", lines) == ""
    assert symptom(0, None, "", lines) == ""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (NCCL, WAITED),
        (JAX, OTHER_TASK),
    ],
)  # fmt: skip
def test_the_symptom_of_an_abort_without_an_exception_is_in_its_log(lines: tuple[str, ...], expected: str) -> None:
    assert symptom(None, signal.SIGABRT, "", lines) == expected
    assert symptom(1, None, "", lines) == ""


def test_an_exception_raised_from_a_lost_connection_is_a_symptom() -> None:
    lines = [
        *recorded("gloo-peer-exited"),
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        "TrainingFailed: epoch 3",
        "trainer.StepError: epoch 3",
    ]
    assert symptom(1, None, "", lines) == LOST


def test_an_exception_after_a_handled_lost_connection_is_a_root_cause() -> None:
    lines = [*recorded("gloo-peer-exited"), "continuing alone", "ValueError: no data left"]
    assert symptom(1, None, "", lines) == ""
    assert symptom(1, None, "ValueError: no data left (train.py:3)", lines) == ""
    assert last_exception(lines) == "ValueError: no data left"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("ConnectionResetError: [Errno 104] Connection reset by peer (train.py:3)", DROPPED),
        ("BrokenPipeError: [Errno 32] Broken pipe", DROPPED),
        ("DistBackendError: NCCL error in: x.cpp:3690, remote process exited or there was a network error", LOST),
        ("torch.distributed.DistNetworkError: recvValue failed on SocketImpl(fd=7)", STORE),
        ("DistStoreError: Timed out after 301 seconds waiting for clients. 2/3 clients joined.", WAITED),
        ("ValueError: loss is NaN", ""),
        ("requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub', port=443): Max retries exceeded", ""),
    ],
)  # fmt: skip
def test_the_exception_in_the_error_file_decides(error: str, expected: str) -> None:
    assert symptom(1, None, error, []) == expected


TRACED = ("Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    step()")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*TRACED, "ValueError: loss is NaN", "wandb.errors.CommError: timed out"), "ValueError: loss is NaN"),
        (("│ > 3 step() │", "╰───╯", "ValueError: loss is NaN", "x.CommError: no"), "ValueError: loss is NaN"),
        ((*TRACED, "ValueError: loss is NaN", "Exception ignored in: <stdout>", "BrokenPipeError: 32"),
         "ValueError: loss is NaN"),
        ((*TRACED, "Exception: no data"), "Exception: no data"),
        (("Exception ignored in: <function __del__>", *TRACED, "Odd: x", "ValueError: y"), "ValueError: y"),
        (("Exception ignored in: <function __del__>", *TRACED, "AssertionError: x"), ""),
        (("  + Exception Group Traceback (most recent call last):", "  |     step()",
          "  | ExceptionGroup: two failed (2 sub-exceptions)", "  +-+--- 1 ---", "    | OSError: [Errno 28] full"),
         "ExceptionGroup: two failed (2 sub-exceptions)"),
    ],
)  # fmt: skip
def test_the_exception_that_ended_a_program_is_not_one_that_it_printed_at_its_exit(
    lines: tuple[str, ...], expected: str
) -> None:
    assert last_exception(lines) == expected


@pytest.mark.parametrize(
    "raised",
    [
        "socket.gaierror: [Errno -2] Name or service not known",
        "struct.error: unpack requires a buffer of 4 bytes",
        "zlib.error: Error -3 while decompressing data: incorrect header check",
        "_queue.Empty",
        "StopIteration",
        "http.client.RemoteDisconnected: Remote end closed connection without response",
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
        "botocore.errorfactory.NoSuchKey: An error occurred (NoSuchKey) when calling the GetObject operation",
    ],
)  # fmt: skip
def test_an_exception_of_any_class_is_known_by_the_traceback_that_it_ends(raised: str) -> None:
    lines = ["step 3", *TRACED, raised]
    assert last_exception(lines) == raised
    assert ends_with_exception(lines)
    assert last_exception([f"[rank1]: {line}" for line in lines]) == raised


THREAD = ("Exception in thread Thread-7 (upload):", *TRACED, "ValueError: quota")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*TRACED, "ValueError: loss is NaN"), "ValueError: loss is NaN"),
        ((*TRACED, "ValueError: loss is NaN", "closing the writer"), "ValueError: loss is NaN"),
        ((*THREAD, *["step"] * 900), "ValueError: quota in thread Thread-7 (upload)"),
        ((*TRACED, "ValueError: no such shard", *["step"] * 9), ""),
        (("Exception ignored in: <function f at 0x7f>", *TRACED, "ValueError: closed"), ""),
        (("retrying after ValueError: quota",), ""),
        ((), ""),
    ],
    ids=["main", "atexit writes", "thread", "handled", "ignored", "prose", "nothing"],
)  # fmt: skip
def test_only_an_exception_that_nobody_caught_is_reported_beside_code_0(lines: tuple[str, ...], expected: str) -> None:
    assert uncaught(lines) == expected


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/python3: No module named train",
        "/opt/env/bin/python: No module named pkg.__main__; 'pkg' is a package and cannot be directly executed",
        "/usr/bin/python3: can't open file '/data/train.py': [Errno 2] No such file or directory",
        "/usr/bin/python3: Error while finding module specification for 'a.b' (ModuleNotFoundError: …)",
    ],
)
def test_what_python_prints_when_it_cannot_begin_is_the_error_of_the_rank(line: str) -> None:
    assert last_exception(["loading", line]) == line
    assert last_exception([line, "and goes on"]) == ""
