"""`pylaunch bench` finds the node behind a slow cable; its rate is known, because the lab shapes it."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.node_faults.faults import SlowCable, inject
from lab.nodes.node import LabNode
from pylaunch.errors import ExitCode
from tests.waiting import wait_until

MBPS = 50.0
PAYLOAD = 1448 / 1514
"""Share of a full frame, as the token bucket counts it, that is payload of TCP with timestamps."""

TRIES = 10
"""On a machine with much other work, healthy pairs differ, and bench gives no verdict."""

INSTALL = "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends iperf3"


def test_a_slow_cable_is_named_with_the_rate_that_iperf3_measures(
    fresh_lab: Callable[..., Lab], torch_python: Path
) -> None:
    lab = fresh_lab(4, share=(torch_python.parents[2],))
    slow, other = lab["n3"], lab["n1"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: node.run("sh", "-c", INSTALL), (slow, other)))
    listen(slow)
    with inject(slow, SlowCable(MBPS)):
        assert any(is_named_with_its_rate(lab, torch_python, other, slow) for _ in range(TRIES))


def is_named_with_its_rate(lab: Lab, python: Path, other: LabNode, slow: LabNode) -> bool:
    """Return True if `slow` is named with a rate within 15 % of the shaped one and of iperf3; never is another one."""
    words = ("bench", "-i", str(lab.inventory), "--python", str(python), "--stage", "pairs", "--json")
    ended = lab.pylaunch(*words, timeout_s=300)
    assert ended.returncode in (ExitCode.DONE, ExitCode.JOB_FAILED), ended.stderr
    found = json.loads(ended.stdout)
    assert {each["host"] for each in found["slow_nodes"]} <= {slow.name}
    if not found["slow_nodes"]:
        return False
    rate, reference = found["slow_nodes"][0]["gbps"], iperf3_gbps(other, slow)
    expected = MBPS / 8000 * PAYLOAD
    return bool(rate == pytest.approx(expected, rel=0.15) and rate == pytest.approx(reference, rel=0.15))


def listen(node: LabNode) -> None:
    """Start the server of iperf3."""
    node.run("systemd-run", "--quiet", "--collect", "--unit", "story-iperf3", "iperf3", "--server")
    wait_until(lambda: node.run("ss", "-ltnH", "sport = :5201").stdout, "iperf3 listens")


def iperf3_gbps(node: LabNode, slow: LabNode) -> float:
    """Rate that `slow` receives from `node`, in GB/s."""
    measured = json.loads(node.run("iperf3", "--client", slow.address, "--time", "3", "--json").stdout)
    rate: float = measured["end"]["sum_received"]["bits_per_second"]
    return rate / 8e9
