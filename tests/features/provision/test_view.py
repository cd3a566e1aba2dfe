from pathlib import Path

import pytest

from pylaunch.features.provision.convergence import ProvisionOptions, ProvisionRequest, ProvisionSurvey
from pylaunch.features.provision.inputs import Wanted
from pylaunch.features.provision.manifest import Change
from pylaunch.features.provision.provisioning import ProvisionPlan
from pylaunch.features.provision.view import show_plan
from pylaunch.model.cluster import Cluster, Host


def test_a_line_that_names_its_own_host_is_one_row_for_all_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, 4)))
    changes = {
        name: (Change("host_baseline", "/etc/hosts", f"has the line '127.0.1.1 {name}'"),) for name in cluster.names
    }
    found = ProvisionSurvey(Wanted({}, ()), {}, changes)
    show_plan(ProvisionPlan(ProvisionRequest(cluster, ProvisionOptions(), Path("environment")), found))
    (_, row) = capsys.readouterr().out.splitlines()
    assert row.split(maxsplit=3) == ["n[1-3]", "host_baseline", "/etc/hosts", "has the line '127.0.1.1 n[1-3]'"]
