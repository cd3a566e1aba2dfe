"""What hosts say of their own provisioning."""

from typing import Any

from pylaunch.checks.hosts import host
from pylaunch.checks.survey import Wanted
from tests.unit.checks.surveys import alike, findings


def entry(**of_the_host: Any) -> dict[str, Any]:
    return {"inputs": "", "notes": [], "differences": [["package curl", "not held"]], "reported": [], **of_the_host}


def test_a_difference_names_its_role_and_what_to_type() -> None:
    (found,) = findings(host.ROLE_CHECKS, alike({"manifest.roles": {"time_sync": entry()}}), Wanted())
    assert (found.text, found.role) == ("time_sync: package curl not held", "time_sync")
    assert found.fix == "pylaunch provision --roles time_sync --limit n[1-3]"


def test_a_host_chooses_no_role_that_a_command_names() -> None:
    names = ("x; rm -rf ~", "../playbooks", "container_engine", "")
    hostile = {name: entry(reported="a password is required") for name in names}
    assert findings(host.ROLE_CHECKS, alike({"manifest.roles": hostile}), Wanted()) == []
