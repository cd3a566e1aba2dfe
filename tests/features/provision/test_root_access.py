"""Hosts on which sudo refuses are found before anything is sent to them."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.readers.hosts import reach
from pylaunch.base.dataclass import replace
from pylaunch.features.provision import root_access
from pylaunch.features.provision.convergence import ProvisionOptions, ProvisionRequest, ProvisionSurvey
from pylaunch.features.provision.inputs import Wanted
from pylaunch.features.provision.manifest import Change
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import NoPython, Unreachable

WANTED = "sudo: a password is required"
NAMES = ("n1", "n2", "n3", "n4", "n5", "n6")


def test_only_hosts_that_change_and_need_sudo_are_asked_and_their_refusals_are_folded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(tuple(Host(name, f"10.0.0.{name[1:]}") for name in NAMES))
    changed = (Change("time_sync", "package chrony", "not installed"),)
    answers: dict[str, Any] = {**dict.fromkeys(NAMES, Unreachable("not asked")), "n6": NoPython("/usr/bin/python3")}
    found = ProvisionSurvey(
        Wanted({}, (), {"n5": {"ansible_become_password": "x"}}),
        answers,
        {**dict.fromkeys(NAMES, changed), "n4": (), "n6": ()},
    )
    asked: list[str] = []

    def fake(hosts: Cluster, programs: dict[str, bytes]) -> dict[str, Any]:
        asked.extend(hosts.names)
        silent = {"n3": Unreachable("no route")}
        return {each: {"readings": {"reach.sudo": {"value": WANTED, "seconds": 0.1}}} for each in programs} | silent

    monkeypatch.setattr(root_access, "ask", fake)
    request = ProvisionRequest(cluster, ProvisionOptions(), Path("environment"))
    refused = root_access.refused_by_sudo(request, found)
    assert sorted(asked) == ["n1", "n2", "n3"]
    assert refused == {"n1": WANTED, "n2": WANTED}
    assert sorted(root_access.refused_by_sudo(request, found, on_all=True)) == ["n1", "n2", "n4"]
    assert root_access.is_password_missing(request, refused)
    assert not root_access.is_password_missing(
        replace(request, options=ProvisionOptions(become_password="secret")), refused
    )
    assert not root_access.is_password_missing(request, {"n1": reach.NO_SUDO})
    error = root_access.sudo_error(request, refused, "--reset")
    assert error.evidence == (f"n[1-2]: {WANTED}",)
    assert str(error.hint).startswith("pylaunch provision --reset -K, or ")
