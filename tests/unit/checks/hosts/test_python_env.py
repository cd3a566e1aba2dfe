from typing import Any

import pytest

from pylaunch.checks.hosts import limits, python_env
from pylaunch.checks.survey import Wanted
from pylaunch.model.diagnosis.finding import Severity
from pylaunch.probe.answers import Unmeasured
from tests.unit.checks.surveys import alike, findings

PYTHON = "/opt/pylaunch/current/bin/python"
WANTED = Wanted(pythons=dict.fromkeys(("n1", "n2", "n3"), PYTHON))


def libraries(digest: str, **versions: str) -> dict[str, Any]:
    return {
        "python_env.libraries": {
            "digest": digest * 64,
            "distributions": {name.replace("_", "-"): version for name, version in versions.items()},
        }
    }


def interpreter(version: str) -> dict[str, Any]:
    return {"python_env.python": f"CPython {version}"}


def identity(**odd: Any) -> dict[str, Any]:
    usual = {"user": "ml", "uid": 1000, "gid": 1000, "home_type": "ext4"}
    return {"login.identity": {**usual, **odd}}


def variables(**found: str) -> dict[str, Any]:
    return {"login.variables": {"PATH": "/usr/bin", **found}}


HEALTHY = {
    **interpreter("3.12.3"),
    **libraries("a", torch="2.6.0", nvidia_nccl_cu12="2.21.5", tqdm="4.67"),
    **identity(),
    **variables(),
}


def test_hosts_with_the_same_python_environment_are_no_finding() -> None:
    assert findings((*python_env.CHECKS, *limits.LOGIN_CHECKS), alike(HEALTHY), WANTED) == []


@pytest.mark.parametrize(
    ("odd", "check", "severity", "text"),
    [
        ({"python_env.python": None}, "python_env.python", Severity.FAIL, f"no interpreter for the ranks at {PYTHON}"),
        ({"python_env.python": Unmeasured("it does not run: no libpython")}, "python_env.python", Severity.UNKNOWN,
         "libpython"),
        (interpreter("3.11.2"), "python_env.python", Severity.FAIL,
         "CPython 3.11.2, expected CPython 3.12.3 as on n[1,3]"),
        (libraries("b", torch="2.6.0", nvidia_nccl_cu12="2.20.5", tqdm="4.67"), "python_env.libraries", Severity.FAIL,
         "nvidia-nccl-cu12: 2.20.5, expected 2.21.5"),
        (libraries("b", torch="2.6.0", nvidia_nccl_cu12="2.21.5"), "python_env.libraries", Severity.WARN,
         "is not that of n[1,3]"),
        (libraries("b", torch="2.6.0", nvidia_nccl_cu12="2.21.5", tqdm="4.67", ray="2.59.0"), "python_env.libraries",
         Severity.FAIL, "ray: 2.59.0, expected none"),
        (variables(NCCL_IB_DISABLE="1"), "login.variables", Severity.WARN, "NCCL_IB_DISABLE of a login: 1"),
        (identity(uid=1001), "login.identity", Severity.WARN, "ml 1001:1000, expected ml 1000:1000"),
    ],
)  # fmt: skip
def test_an_environment_that_differs_is_reported_with_the_value_of_the_others(
    odd: dict[str, Any], check: str, severity: Severity, text: str
) -> None:
    (finding,) = findings((*python_env.CHECKS, *limits.LOGIN_CHECKS), alike(HEALTHY, n2=odd), WANTED)
    assert (finding.check, finding.severity, finding.hosts) == (check, severity, ("n2",))
    assert text in finding.text


def test_an_interpreter_without_packages_lacks_those_that_the_others_share() -> None:
    found = findings(python_env.CHECKS, alike(HEALTHY, n2={"python_env.libraries": None}), WANTED)
    assert {finding.hosts for finding in found} == {("n2",)}
    assert "torch: none, expected 2.6.0 as on n[1,3]" in [finding.text for finding in found]


def test_a_user_with_another_id_cannot_use_a_shared_home() -> None:
    shared = identity(home_type="nfs4")
    (finding,) = findings(
        limits.LOGIN_CHECKS, alike({**HEALTHY, **shared}, n2=identity(home_type="nfs4", uid=7)), WANTED
    )
    assert finding.severity is Severity.FAIL


def test_a_secret_variable_that_differs_is_reported_without_its_value() -> None:
    usual = {**HEALTHY, **variables(HF_TOKEN="hf_one", https_proxy="http://ml:pass1@proxy:3128")}
    odd = variables(HF_TOKEN="hf_two", https_proxy="http://ml:pass2@proxy:3128")
    found = findings(limits.LOGIN_CHECKS, alike(usual, n2=odd))
    assert [each.text.split(" of a login")[0] for each in found] == ["variable HF_TOKEN", "variable https_proxy"]
    shown = str(found)
    assert not any(secret in shown for secret in ("hf_one", "hf_two", "pass1", "pass2"))
    assert "@proxy:3128" in shown
