"""The table of checks at a start: every check has a row; a check that can fail is omitted only for a reason."""

import re
from pathlib import Path

import pytest

from pylaunch.checks import mesh, suite
from pylaunch.checks.check import Check
from pylaunch.checks.start_table import REFUSALS, START_TABLE, AtStart, at_start
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.test_suite import ALL, CLUSTER

AGENT = Path(__file__).parents[3] / "pylaunch/agent"
IDS = {check.id for check in suite.CHECKS}


def test_every_check_has_one_row_and_every_row_a_check() -> None:
    assert set(START_TABLE) == IDS


@pytest.mark.parametrize(
    "check", [each for each in suite.CHECKS if each.severity is Severity.FAIL], ids=lambda check: str(check.id)
)
def test_a_check_that_can_fail_is_omitted_only_for_its_cost_or_because_another_one_refuses(check: Check) -> None:
    row = START_TABLE[check.id]
    others = {name for name in IDS if name != check.id and name in row.why}
    refuse = {name for name in others if START_TABLE[name].at_start is not AtStart.NOT_ASKED}
    assert row.at_start is not AtStart.NOT_ASKED or "cost: " in row.why or refuse


def test_reported_checks_need_no_question_to_the_probe_and_no_mesh_test() -> None:
    asked = [check for check in suite.CHECKS if at_start(check) is AtStart.ASKED]
    questions = {name for host in CLUSTER.hosts for name in suite.questions_for(host, ALL, asked)}
    assert not questions & mesh.READINGS
    subjects = {name.split(".")[0] for name in questions}
    assert subjects == {"host", "login", "code"}, "each further module costs every start its compilation on every node"
    assert suite.questions_for(CLUSTER.hosts[0], Wanted(), asked)


def test_every_refusal_of_an_agent_has_the_check_for_the_same_problem() -> None:
    codes = {
        code
        for source in AGENT.rglob("*.py")
        for found in re.findall(
            r'Reason\(\s*"([a-z-]+)"|^ +code = "([a-z-]+)" if .* else "([a-z-]+)"$', source.read_text(), re.M
        )
        for code in found
        if code
    }
    assert codes == set(REFUSALS)
    assert {check for check in REFUSALS.values() if check} <= IDS
