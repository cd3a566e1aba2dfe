"""`pylaunch bench` finds the node behind a slow cable; its rate is known, because the lab shapes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.lab.faults import SlowCable, inject
from pylaunch.lab.lab import Lab
from pylaunch.lab.node import LabNode
from tests.waiting import wait_until

pytestmark = pytest.mark.lab

MBPS = 100.0
PAYLOAD = 1448 / 1514
"""Share of a full frame, as the token bucket counts it, that is payload of TCP with timestamps."""

INSTALL = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iperf3"


def test_a_slow_cable_is_named_with_the_rate_that_iperf3_measures(
    fresh_lab: Callable[..., Lab], torch_python: Path
) -> None:
    lab = fresh_lab(4, share=(torch_python.parents[2],))
    slow, other = lab["n3"], lab["n1"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: node.run("sh", "-c", INSTALL), (slow, other)))
    with inject(slow, SlowCable(MBPS)):
        words = ("bench", "-i", str(lab.inventory), "--python", str(torch_python), "--stage", "pairs", "--json")
        ended = lab.pylaunch(*words, timeout_s=300)
        reference = iperf3_gbps(other, slow)
    assert ended.returncode == ExitCode.JOB_FAILED, ended.stderr
    found = json.loads(ended.stdout)
    (named,) = found["slow_nodes"]
    assert named["host"] == "n3"
    assert found["slow_links"] == []
    assert named["gbps"] == pytest.approx(MBPS / 8000 * PAYLOAD, rel=0.15)
    assert named["gbps"] == pytest.approx(reference, rel=0.15)


def iperf3_gbps(node: LabNode, slow: LabNode) -> float:
    """Rate that `slow` receives from `node`, in GB/s."""
    slow.run("systemd-run", "--quiet", "--collect", "--unit", "story-iperf3", "iperf3", "--server")
    wait_until(lambda: slow.run("ss", "-ltnH", "sport = :5201").stdout, "iperf3 listens")
    measured = json.loads(node.run("iperf3", "--client", slow.address, "--time", "3", "--json").stdout)
    rate: float = measured["end"]["sum_received"]["bits_per_second"]
    return rate / 8e9
