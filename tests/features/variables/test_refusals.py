"""Variables of a plan, which a start refuses."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.features import refuse_variables
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.render import planned_run

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def test_a_finding_about_an_interface_names_the_flag_that_chose_it() -> None:
    job = JobSpec(("train.py",), Framework.DIRECT, "/", interface="lo")
    planned = planned_run(plan_run(CLUSTER, job, "7f3a9c01"))
    with pytest.raises(UsageError) as refused:
        refuse_variables(planned, pytest.fail)
    [line] = refused.value.evidence
    assert line.startswith("--interface: lo: no other machine can be reached over it, and these are 2")


def test_what_pylaunch_itself_sets_on_each_node_is_not_judged() -> None:
    job = JobSpec(("serve.py",), Framework.RAY, "/", env={"NOTE": "x"})
    refuse_variables(planned_run(plan_run(CLUSTER, job, "7f3a9c01")), pytest.fail)


@pytest.mark.parametrize("name", ["10.0.0.1", "eth0,eth1", "^docker0"])
def test_an_interface_is_a_name(name: str) -> None:
    planned = planned_run(plan_run(CLUSTER, JobSpec(("train.py",), Framework.JAX, "/", interface=name), "7f3a9c01"))
    with pytest.raises(UsageError, match="cannot be obeyed"):
        refuse_variables(planned, pytest.fail)
