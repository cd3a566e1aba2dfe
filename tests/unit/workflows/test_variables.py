from __future__ import annotations

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.render import render
from pylaunch.workflows.variables import plan_findings, refuse_errors

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def check(**env: str) -> None:
    plan = plan_run(CLUSTER, JobSpec(("train.py",), Framework.JAX, "/home/ml", env=env), "7f3a9c01")
    refuse_errors(plan_findings(plan, render(plan)), pytest.fail)


def test_a_port_that_is_still_to_be_chosen_is_as_good_as_any() -> None:
    check()


def test_what_the_user_sets_is_judged_as_it_stands() -> None:
    with pytest.raises(UsageError) as refused:
        check(JAX_COORDINATOR_ADDRESS="n1")
    assert "JAX_COORDINATOR_ADDRESS=n1" in "\n".join(refused.value.evidence)


def test_a_flag_or_a_secret_that_the_identity_of_ranks_overrides_is_a_warning() -> None:
    job = JobSpec(
        ("train.py",), Framework.JAX, "/", env={"RANK": "9", "NOTE": "x", "PYLAUNCH_RUN": "x"}, secrets=("MASTER_PORT",)
    )
    plan = plan_run(CLUSTER, job, "7f3a9c01")
    warned: list[str] = []
    refuse_errors(plan_findings(plan, render(plan)), warned.append)
    assert warned == [
        f"warning: {name}: no effect: pylaunch sets this variable for each rank"
        for name in ("--env: RANK", "--env: PYLAUNCH_RUN", "--secret: MASTER_PORT")
    ]


def test_a_finding_about_an_interface_names_the_flag_that_chose_it() -> None:
    job = JobSpec(("train.py",), Framework.DIRECT, "/", interface="lo")
    plan = plan_run(CLUSTER, job, "7f3a9c01")
    with pytest.raises(UsageError) as refused:
        refuse_errors(plan_findings(plan, render(plan)), pytest.fail)
    assert refused.value.evidence[0].startswith("--interface: NCCL_SOCKET_IFNAME==lo: no other machine")
