"""Hosts compared with their manifests, and manifests with what the hosts are to be given."""

from typing import Any

import pytest

from pylaunch.checks.hosts import host
from pylaunch.features.provision import manifest
from pylaunch.features.provision.manifest import HostState, Note, ask_manifests, changes_of, notes_of
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.finding import Severity
from tests.unit.checks.surveys import alike, findings

WANTED = {"time_sync": "d1", "python_env": "d2"}


def entry(inputs: Any, *, differences: Any = (), reported: Any = (), notes: Any = ()) -> Any:
    listed = list(reported) if not isinstance(reported, str) else reported
    return {"inputs": inputs, "notes": list(notes), "differences": [*differences], "reported": listed}


def test_a_host_whose_records_hold_and_whose_inputs_are_those_of_today_needs_no_ansible() -> None:
    state = HostState({"time_sync": entry("d1"), "python_env": entry("d2"), "firewall": entry("other")})
    assert changes_of(WANTED, state) == ()


def test_a_missing_record_other_inputs_and_drift_are_changes() -> None:
    drifted = entry("d0", differences=[["/etc/a", "content differs"]], reported=["the rules are gone"])
    assert [
        (each.role, each.subject, each.difference) for each in changes_of(WANTED, HostState({"time_sync": drifted}))
    ] == [
        ("time_sync", "inputs", "are not those that the host was provisioned with"),
        ("time_sync", "/etc/a", "content differs"),
        ("time_sync", "time_sync", "the rules are gone"),
        ("python_env", "manifest", "has no record of this role"),
    ]


def test_what_only_root_can_read_is_a_change_until_it_is_read() -> None:
    unread = entry("d1", reported="sudo: a password is required")
    (change,) = changes_of({"time_sync": "d1"}, HostState({"time_sync": unread}))
    assert change.difference == "cannot be read: sudo: a password is required; ask for it with --ask-become-pass (-K)"


def test_notes_are_those_of_the_roles_that_are_wanted() -> None:
    state = HostState({"time_sync": entry("d1", notes=["no clock"]), "firewall": entry("", notes=["of another"])})
    assert notes_of(WANTED, state) == (Note("time_sync", "no clock"),)


def answered(monkeypatch: pytest.MonkeyPatch, reading: dict[str, Any], env_name: str | None = None) -> object:
    """What n1 says with this reading of its manifest."""
    readings = {"manifest.roles": {**reading, "seconds": 0.1}}
    monkeypatch.setattr(manifest, "ask", lambda cluster, programs: {"n1": {"readings": readings}})
    return ask_manifests(Cluster((Host("n1", "10.0.0.1", env_name=env_name),)))["n1"]


@pytest.mark.parametrize("value", [{"time_sync": {}}, [], {"time_sync": entry(1)}, {"time_sync": entry("", notes=[1])}])
def test_an_answer_of_another_shape_is_no_answer(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    assert "not understood" in str(answered(monkeypatch, {"value": value}))


def test_a_manifest_that_cannot_be_read_makes_every_role_run(monkeypatch: pytest.MonkeyPatch) -> None:
    state = answered(monkeypatch, {"unmeasured": "it is not understood"})
    assert isinstance(state, HostState)
    assert {each.difference for each in changes_of(WANTED, state)} == {"it is not understood"}


def test_the_entry_of_the_environment_of_the_project_is_that_of_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"python_env": entry("d0"), "python_env/vision": entry("d1"), "python_env/speech": entry("d2")}
    for name, inputs in ((None, "d0"), ("vision", "d1")):
        state = answered(monkeypatch, {"value": entries}, name)
        assert isinstance(state, HostState)
        assert state.entries["python_env"]["inputs"] == inputs


def test_check_names_what_drifted_and_the_role_that_mends_it() -> None:
    record = {
        "time_sync": entry("", differences=[["chrony.service", "missing"]]),
        "firewall": entry("", reported="sudo"),
    }
    found = findings(host.ROLE_CHECKS, alike({"manifest.roles": record}))
    assert [(each.severity, each.text, each.role) for each in found] == [
        (Severity.WARN, "time_sync: chrony.service missing", "time_sync"),
        (Severity.NOTE, "firewall: only root can look: sudo", ""),
    ]
    assert found[0].fix == "pylaunch provision --roles time_sync --limit n[1-3]"
    assert findings(host.ROLE_CHECKS, alike({"manifest.roles": {}})) == []
