import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.setting import LintFinding, LintLevel, refuse_errors, without_effect
from pylaunch.render import render

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def test_errors_refuse_the_start_and_warnings_are_passed_on() -> None:
    warned: list[str] = []
    findings = (
        LintFinding(LintLevel.WARNING, "--env", "A=1", "deprecated", "B=1"),
        LintFinding(LintLevel.ERROR, "--env", "C=9", "expected 0 … 8"),
    )
    with pytest.raises(UsageError, match="a variable cannot be obeyed") as refused:
        refuse_errors(findings, warned.append)
    assert warned == ["warning: --env: A=1: deprecated; instead: B=1"]
    assert refused.value.evidence == ("--env: C=9: expected 0 … 8",)


def test_a_flag_or_a_secret_that_the_identity_of_ranks_overrides_is_a_warning() -> None:
    job = JobSpec(
        ("train.py",), Framework.JAX, "/", env={"RANK": "9", "NOTE": "x", "PYLAUNCH_RUN": "x"}, secrets=("MASTER_PORT",)
    )
    plan = plan_run(CLUSTER, job, "7f3a9c01")
    warned: list[str] = []
    refuse_errors((*without_effect(plan, [command for _, command in render(plan)]),), warned.append)
    assert warned == [
        f"warning: {name}: no effect: pylaunch sets this variable for each rank"
        for name in ("--env: RANK", "--env: PYLAUNCH_RUN", "--secret: MASTER_PORT")
    ]
