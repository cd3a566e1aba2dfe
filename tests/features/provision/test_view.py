from pathlib import Path

import pytest

from pylaunch.features.provision import command
from pylaunch.features.provision.convergence import ProvisionOptions, ProvisionRequest, ProvisionSurvey
from pylaunch.features.provision.inputs import Wanted
from pylaunch.features.provision.manifest import Change
from pylaunch.features.provision.provisioning import ProvisionPlan, ProvisionReport
from pylaunch.features.provision.view import show_plan
from pylaunch.model.cluster import Cluster, Host
from pylaunch.transport.runner import Failure, PlaybookResult


def test_a_line_that_names_its_own_host_is_one_row_for_all_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, 4)))
    changes = {
        name: (Change("host_baseline", "/etc/hosts", f"has the line '127.0.1.1 {name}'"),) for name in cluster.names
    }
    found = ProvisionSurvey(Wanted({}, ()), {}, changes)
    show_plan(ProvisionPlan(ProvisionRequest(cluster, ProvisionOptions(), Path("environment")), found))
    (_, row) = capsys.readouterr().out.splitlines()
    assert row.split(maxsplit=3) == ["n[1-3]", "host_baseline", "/etc/hosts", "has the line '127.0.1.1 n[1-3]'"]


def test_a_plan_that_cannot_become_root_prints_the_flag_to_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),))
    request = ProvisionRequest(cluster, ProvisionOptions(), Path("environment"))
    plan = ProvisionPlan(request, ProvisionSurvey(Wanted({}, ()), {}, {}))
    failure = Failure("n1", "time_sync", "Configure chrony", "Missing sudo password")
    result = PlaybookResult((failure,))
    monkeypatch.setattr(command, "look_ahead", lambda plan, emit: ProvisionReport(plan, None, result))
    command._looked_ahead(plan)
    printed = capsys.readouterr().err
    assert "  would fail: n1  time_sync: Configure chrony: Missing sudo password\n" in printed
    assert "hint: repeat the command with -K (--ask-become-pass): sudo wants the password on n1\n" in printed
