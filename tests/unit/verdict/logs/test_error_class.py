"""The class of an error is read from the form of its message, and its confidence is never high."""

import re

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.errors.error_class import FORMS, OF_PROGRAMS, error_class
from tests.unit.verdict.logs.judged import cause_in, scanned

CLASSES = {
    "MemoryError: Unable to allocate 31.2 GiB for an array": "host-oom",
    "srun: error: MPI: Cannot create context for mpi/pmix": "mpi-pmi",
    "mlx5_0: ibv_create_cq() failed: Cannot allocate memory.": "memlock",
    "ValueError: Expected input batch_size (32) to match target batch_size (16).": "program-error",
    "fatal: Unable to determine this slurmd's NodeName": "slurm-node",
    "ValueError: num_samples should be a positive integer value, but got num_samples=0": "file-missing",
    "ValueError: mutable default <class 'orbit.Plan'> for field plan is not allowed": "package-mismatch",
    "KeyError: 'orbit.layers.0.q_proj.weight'": "checkpoint-mismatch",
    "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/plan'": "stale-files",
    "ValueError: Unknown scheme for proxy URL URL('socks://n1:1')": "proxy-variables",
    "RuntimeError: The server socket has failed to listen on any local network address.": "port-in-use",
    "RuntimeError: \"orbit_cpu\" not implemented for 'Half'": "gpu-missing",
    "OSError: [Errno 39] Directory not empty": "checkpoint-race",
    "RuntimeError: no wheel for orbit-2.1-*.whl. Found: ['/srv/orbit-1.9-py3.whl']": "package-mismatch",
    "*** FATAL CONFIG FILE ERROR ***": "config-syntax",
    "ABORTED: libtpu.so is already in use by another process.": "gpu-busy",
    "slurmd: error: Munge decode failed: Rewound credential": "slurm-credential",
    "The node was low on resource: memory.": "host-oom",
    "[1575.4] [n3:133:0]  posix.c:158  UCX  ERROR Not enough memory. Please check that /dev/shm": "container-shm",
    "ProcessExitedException: process 0 terminated with signal SIGKILL": "host-oom",
    "orbit.NotUpError: Failed to connect to serve controller, please try again later.": "coordinator-unreachable",
    "AssertionError: lattice is not available.": "import-path",
    "ValueError: Unrecognized model in /srv/plan. Should have a `kind` key in its config.json": "model-unsupported",
    "NVRM: API mismatch: the client has the version 535.1": "driver-mismatch",
    "ERROR: [Errno 98] error while attempting": "port-in-use",
}
NO_CLASS = [
    "RuntimeError: Step 1 exited with non-zero status 1",
    "RuntimeError: Engine core initialization failed. See root cause above.",
    "RuntimeError: Connection reset by peer",
    "TimeoutError: the plan timed out after 30 s",
    "OrbitError: the orbit decayed",
    "KeyError: 'plan'",
    "RuntimeError: nothing was planned; see the planner logs above for the error",
    "RuntimeError: the plan stopped because another rank failed to read it",
    "Exception: -- Process 3 terminated with the following error:",
]


@pytest.mark.parametrize("text", CLASSES)
def test_the_form_of_a_message_shows_its_class(text: str) -> None:
    found = error_class(text)
    assert found is not None
    assert found.cause == CLASSES[text]
    assert found.confidence is not Confidence.HIGH
    assert found.because


@pytest.mark.parametrize("text", NO_CLASS)
def test_a_report_a_victim_and_an_unknown_form_have_no_class(text: str) -> None:
    assert error_class(text) is None


def test_a_value_error_where_a_checkpoint_is_read_is_about_the_checkpoint() -> None:
    found = error_class("ValueError: cannot turn 2 into (1, 64)", "/srv/lib/python3.11/site-packages/orbax/a.py:3")
    assert found is not None
    assert found.cause == "checkpoint-mismatch"
    assert error_class("KeyError: 'plan'", "/srv/train.py:8") is None
    found = error_class("KeyError: 'plan'", "/srv/train.py:8 in load_state")
    assert found is not None
    assert found.cause == "checkpoint-mismatch"


def test_every_form_names_a_class_of_the_catalogue_and_none_is_sure() -> None:
    known = signatures().causes
    for causes, confidence, form in (*OF_PROGRAMS, *FORMS):
        assert set(causes.split()) <= set(known)
        assert confidence is not Confidence.HIGH
        assert re.compile(form).groups == 0


def test_an_exception_of_user_code_is_the_cause_unless_its_words_admit_several() -> None:
    def also(error: str) -> list[str]:
        log = f'Traceback (most recent call last):\n  File "/srv/train.py", line 3, in main\n    run()\n{error}\n'
        first = cause_in([scanned(log)])
        assert first.cause.id == "program-error"
        return [each.id for each in first.also]

    assert also("TypeError: run() got 3 of 2") == []
    assert also("ValueError: the model does not use encoder_outputs") == []
    assert also("KeyError: 'val_split'") == []
    assert also("ValueError: shapes of the meshes must match") == ["parallel-layout", "checkpoint-mismatch"]


PACKAGES = "/opt/env/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("frames", "error", "causes"),
    [
        (("/srv/train.py",), "KeyError: 'val_split'", "program-error"),
        (("/srv/train.py", "/usr/lib/python3.11/json/encoder.py"), "TypeError: no JSON", "program-error"),
        (("/srv/train.py", f"{PACKAGES}/lit/fit.py"), "AssertionError: one node", "program-error package-mismatch"),
        (("/srv/train.py", "/src/ray/python/ray/api.py"), "KeyError: 'obj'", "program-error package-mismatch"),
        (("/srv/train.py", f"{PACKAGES}/torch/loss.py"), "IndexError: Target 9 is out of bounds.", "program-error"),
        (("/srv/train.py", f"{PACKAGES}/lit/fit.py"), "IndexError: list index out", "program-error package-mismatch"),
        (("/srv/train.py",), "OSError: [Errno 26] Text file busy: 'bin/tok'", "shared-cache-race"),
    ],
)
def test_the_program_is_at_fault_alone_only_where_its_own_code_raised_the_exception(
    frames: tuple[str, ...], error: str, causes: str
) -> None:
    stack = "".join(f'  File "{each}", line 3, in main\n    run()\n' for each in frames)
    first = cause_in([scanned(f"Traceback (most recent call last):\n{stack}{error}\n")])
    assert " ".join(each.id for each in (first.cause, *first.also)) == causes
