"""Lines that only quote errors are none, and errors that a program survives end nothing."""

import pytest

from pylaunch.features.explain.judgement.error_form import error_weight
from tests.features.explain.judgement.verdicts import verdict_on


@pytest.mark.parametrize(
    "line",
    [
        "error: 0.01",
        "val_error=0.25 train_error=0.31",
        "mean absolute error: 3.2e-4",
        "loss error 0.1 on the held-out set: error = 0.1",
        "epoch 3: word error rate: 12.5%",
        "0 errors, 0 failures",
        "no errors found in 12 shards",
        "12 passed, 0 failed",
        "ORB metadata already exists.",
        "finished without any error",
        "failed_batches=0 retry_count=0",
        "INFO: the previous run printed RuntimeError: out of steps",
        "2026-11-23 08:00:00,120 INFO train: caught ValueError: bad sample, next one",
        "[2026-11-23 08:00:00,120] [INFO] [engine.py:71:step] overflow, error scale 0.5",
        "I1123 08:00:00.100000 11 server.go:71] Error channel is open",
        "W1123 08:00:00.100000 11 server.go:71] request failed, will be tried again",
        "UserWarning: this function fails for complex input",
        "/env/x.py:3: FutureWarning: error_score is deprecated",
        "WARNING: the scheduler could not be restored, a new one is used",
        "warning: unused variable: error",
        "level=info msg=\"error budget is fine\"",
        '{"level": "info", "msg": "no such key, default used"}',
        "NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "tests/test_errors.py::test_error_handling PASSED",
        "registering ErrorHandler and TimeoutPolicy",
        "loading module fatal_signals",
        "Timeout(ms)=1800000",
        "timeout: 1800",
        "exit code: 0",
        "worker 3 exited with code 0",
    ],
)  # fmt: skip
def test_a_line_that_quotes_an_error_has_not_its_form(line: str) -> None:
    assert error_weight(line) is None


@pytest.mark.parametrize(
    "log",
    [
        "ERROR: cannot read the cache, building it\nstep 1 loss 3.0\nstep 2 loss 2.9\n",
        "ValueError: bad sample 12, skipped\nepoch 0 loss 2.1\nepoch 1 loss 1.9\ntraining finished\n",
        "Could not load the plugin, using the slow path\nall shards are read\ndone\n",
        "[error] telemetry endpoint refused the connection\nTraining completed.\n",
        "RuntimeError: no fused kernel here\nstep 1 loss 3.0\nstep 2 loss 2.9\nstep 3 loss 2.8\n",
        "E1123 08:00:00.100000 11 plugin.cc:12] already registered\nepoch 1 step 1 loss 3.0\nepoch 2 loss 3.0\n",
        "server starts\nUsing default plan config. It may be slow! Config file not found at /srv/plan.json\n",
    ],
    ids=["cache", "sample", "plugin", "telemetry", "fallback", "factory", "default"],
)  # fmt: skip
def test_an_error_that_the_program_survived_is_counted_and_ends_nothing(log: str) -> None:
    verdict = verdict_on(log)
    assert not verdict.failed
    assert verdict.first_error is None
    assert verdict.causes == ()
    assert len(verdict.survived) == 1


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("step 1 loss 3.0\nValueError: bad sample 12\n", 2),
        ("step 1 loss 3.0\nAborted\njob finished at Mon 08:00\n", 2),
        ("ERROR: the mesh has a hole\nJob 7 done\n", 1),
        ("step 1 loss 3.0\nstep 2 loss 3.0\npanic: no slot\nexit status 2\n", 3),
    ],
    ids=["after progress", "before an epilogue", "before an end of the script", "before a report"],
)
def test_an_error_that_only_an_end_of_the_script_follows_is_a_failure(log: str, line: int) -> None:
    verdict = verdict_on(log)
    assert verdict.failed
    assert verdict.first_error is not None
    assert verdict.first_error.evidence.line == line
