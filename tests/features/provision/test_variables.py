"""Variables of an inventory, which a provision has judged."""

from collections.abc import Sequence

from pylaunch.features.provision.provisioning import lint_variables
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.setting import Circumstances, LintFinding, LintLevel, Setting

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))


def complain(settings: Sequence[Setting], circumstances: Circumstances) -> list[LintFinding]:
    """Judge that reports each variable, with the circumstances."""
    level = circumstances.debug or LintLevel.WARNING
    return [LintFinding(level, each.where, each.name, f"{circumstances.machines} machines") for each in settings]


def own(variables: dict[str, str], **more: object) -> dict[str, object]:
    return {"nccl_env_variables": variables, **more}


def test_equal_variables_of_several_hosts_are_judged_once() -> None:
    variables = own({"NCCL_IB_TIMEOUT": "99", "NCCL_DEBUG": "{{ level }}"})
    (finding,) = lint_variables(CLUSTER, {"n1": variables, "n2": variables}, complain)
    assert finding.line == "nccl_env_variables of n[1-2]: NCCL_IB_TIMEOUT: 2 machines"


def test_variables_for_debugging_are_errors_unless_they_are_allowed() -> None:
    refused, allowed = own({"A": "1"}), own({"A": "1"}, nccl_env_allow_debug=True)
    found = lint_variables(CLUSTER, {"n1": refused, "n2": allowed}, complain)
    assert [each.severity for each in found] == [LintLevel.ERROR, LintLevel.WARNING]
