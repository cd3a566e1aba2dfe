"""Variables of a plan or of an inventory, which a start or a provision refuses."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.features import refuse_variables
from pylaunch.features.variables.judgement import judge
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.setting import LintLevel
from pylaunch.provision.provisioning import lint_variables
from pylaunch.runs.planned import planned_run

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def test_a_finding_about_an_interface_names_the_flag_that_chose_it() -> None:
    job = JobSpec(("train.py",), Framework.DIRECT, "/", interface="lo")
    planned = planned_run(plan_run(CLUSTER, job, "7f3a9c01"))
    with pytest.raises(UsageError) as refused:
        refuse_variables(planned, pytest.fail)
    assert any(
        each.startswith("--interface: NCCL_SOCKET_IFNAME==lo: no other machine") for each in refused.value.evidence
    )


def setting(variables: dict[str, str], **more: object) -> dict[str, object]:
    return {"nccl_env_variables": variables, **more}


def test_equal_findings_of_several_hosts_are_reported_once() -> None:
    own = setting({"NCCL_IB_TIMEOUT": "99"})
    (finding,) = lint_variables(CLUSTER, {"n1": own, "n2": own}, judge)
    assert finding.severity is LintLevel.ERROR
    assert finding.where == "nccl_env_variables of n[1-2]"


def test_variables_for_debugging_are_refused_unless_they_are_allowed() -> None:
    variables = {"NCCL_P2P_DISABLE": "1"}
    assert [each.severity for each in lint_variables(CLUSTER, {"n1": setting(variables)}, judge)] == [LintLevel.ERROR]
    assert lint_variables(CLUSTER, {"n1": setting(variables, nccl_env_allow_debug=True)}, judge) == ()


def test_loopback_is_refused_where_members_are_machines_of_their_own() -> None:
    (finding,) = lint_variables(CLUSTER, {"n1": setting({"NCCL_SOCKET_IFNAME": "=lo"})}, judge)
    assert "no other machine" in finding.message
