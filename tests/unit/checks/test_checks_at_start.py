"""Checks at a start: what the probe is asked stays cheap; every refusal of an agent is known."""

import re
from pathlib import Path

from pylaunch.checks import mesh, suite
from pylaunch.checks.check import AtStart
from pylaunch.checks.survey import Wanted
from tests.unit.checks.test_suite import ALL, CLUSTER

AGENT = Path(__file__).parents[3] / "pylaunch/agent"


def test_reported_checks_need_no_question_to_the_probe_and_no_mesh_test() -> None:
    asked = [check for check in suite.CHECKS if check.at_start is AtStart.ASKED]
    questions = {name for host in CLUSTER.hosts for name in suite.questions_for(host, ALL, asked)}
    assert not questions & mesh.READINGS
    subjects = {name.split(".")[0] for name in questions}
    assert subjects == {"host", "login", "code"}, "each further module costs every start its compilation on every node"
    assert suite.questions_for(CLUSTER.hosts[0], Wanted(), asked)


def test_every_refusal_for_a_gpu_can_be_skipped_by_the_name_of_a_check() -> None:
    codes = re.findall(r'Reason\(\s*"(gpu-[a-z]+)"', (AGENT / "run/gpu_checks.py").read_text())
    assert {code for check in suite.CHECKS for code in check.refusals} == set(codes)
