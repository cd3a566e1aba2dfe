from __future__ import annotations

from pylaunch.model.variables.lint import LintLevel
from pylaunch.provision.state import DesiredCommunication, RoleState
from pylaunch.provision.variables import lint_variables


def wanting(variables: dict[str, str], *, allow_debug: bool = False) -> tuple[RoleState, ...]:
    wanted = DesiredCommunication(("/etc/nccl.conf",), ("10.0.0.1", "10.0.0.2"), "", "auto", (), variables, allow_debug)
    return (RoleState("nccl_env", communications=(wanted,)),)


def test_equal_findings_of_several_hosts_are_reported_once() -> None:
    states = wanting({"NCCL_IB_TIMEOUT": "99"})
    (finding,) = lint_variables({"n1": states, "n2": states})
    assert finding.severity is LintLevel.ERROR
    assert finding.where == "nccl_env_variables of n[1-2]"


def test_variables_for_debugging_are_refused_unless_they_are_allowed() -> None:
    variables = {"NCCL_P2P_DISABLE": "1"}
    assert [each.severity for each in lint_variables({"n1": wanting(variables)})] == [LintLevel.ERROR]
    assert lint_variables({"n1": wanting(variables, allow_debug=True)}) == ()


def test_loopback_is_refused_where_members_are_machines_of_their_own() -> None:
    (finding,) = lint_variables({"n1": wanting({"NCCL_SOCKET_IFNAME": "=lo"})})
    assert "no other machine" in finding.message
