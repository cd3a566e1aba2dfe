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
    assert any(
        each.startswith("--interface: NCCL_SOCKET_IFNAME==lo: no other machine") for each in refused.value.evidence
    )
