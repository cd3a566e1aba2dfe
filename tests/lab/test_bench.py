"""`pylaunch bench` finds the node behind a slow cable; its rate is known, because the lab shapes it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.node_faults.faults import SlowCable, inject
from pylaunch.errors import ExitCode

MBPS = 50.0
PAYLOAD = 1448 / 1514
"""Share of a full frame, as the token bucket counts it, that is payload of TCP with timestamps."""

TRIES = 5
"""On a machine with much other work, healthy pairs differ, and bench gives no verdict."""


def test_a_slow_cable_is_named_with_its_rate(fresh_lab: Callable[..., Lab], torch_python: Path) -> None:
    lab = fresh_lab(4, share=(torch_python.parents[2],))
    with inject(lab["n3"], SlowCable(MBPS)):
        assert any(is_named_with_its_rate(lab, torch_python, "n3") for _ in range(TRIES))


def is_named_with_its_rate(lab: Lab, python: Path, slow: str) -> bool:
    """Return True if `slow` is named with a rate within 15 % of the shaped one; never is another one."""
    words = ("bench", "-i", str(lab.inventory), "--python", str(python), "--stage", "pairs", "--json")
    ended = lab.pylaunch(*words, timeout_s=300)
    assert ended.returncode in (ExitCode.DONE, ExitCode.JOB_FAILED), ended.stderr
    found = json.loads(ended.stdout)
    assert {each["host"] for each in found["slow_nodes"]} <= {slow}
    rates = [each["gbps"] for each in found["slow_nodes"]]
    return rates == [pytest.approx(MBPS / 8000 * PAYLOAD, rel=0.15)]
