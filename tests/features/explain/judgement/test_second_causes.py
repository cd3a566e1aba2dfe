"""Texts that programs print for a second reason: both are named, or the line that decides between them counts."""

import pytest

from tests.features.explain.judgement.verdicts import named_in

TRACEBACK = 'Traceback (most recent call last):\n  File "/app/train.py", line 12, in <module>\n    main()\n'

ON_A_CPU = "W1025 08:07:07.1 7 xla_bridge.py:364] No GPU/TPU found, falling back to CPU.\n"
NO_ANSWER = "[c10d] The client socket has timed out after 300000ms while trying to connect to ({}, 51216).\n"


@pytest.mark.parametrize(
    ("log", "causes"),
    [
        (NO_ANSWER.format("127.0.1.1"), "hosts-loopback"),
        ("PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168\n", ""),
        ("[1] Killed  process of an earlier run\nERROR Read timeout [60s] of the plan\n", ""),
        ("zsh: segmentation fault (core dumped)  python train.py\n", "native-crash"),
        (f"{TRACEBACK}OSError: [Errno 28] No space left on device: '/dev/shm/q7'\n", "container-shm"),
        (f"{TRACEBACK}socket.gaierror: [Errno -2] Name or service not known\n", "dns-hosts hub-unreachable"),
        (
            (
                "slurmstepd: error: *** JOB 7 ON n2 CANCELLED AT 2026-03-01T14:30:00 DUE TO NODE FAILURE, "
                "SEE SLURMCTLD LOG FOR DETAILS ***\n"
            ),
            "session-lost",
        ),
        (ON_A_CPU + "".join(f"step {step} loss=2.1\n" for step in range(8)), ""),
    ],
)
def test_a_text_with_a_second_cause(log: str, causes: str) -> None:
    assert named_in(log) == causes


@pytest.mark.parametrize(
    ("log", "causes"),
    [
        ("Ignore import error when loading orbit.plan: No module named 'plan'\n", ""),
        ("Namespace(init_method='tcp://n1:29500', rank=1, steps=20, world_size=3)\n", ""),
    ],
)
def test_a_log_that_ends_early_is_explained_by_what_it_still_shows(log: str, causes: str) -> None:
    assert named_in(log) == causes
