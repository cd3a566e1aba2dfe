"""Ansible runs for the hosts and roles that differ, and for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable
from pylaunch.provision import convergence
from pylaunch.provision.convergence import ProvisionRequest, ProvisionSurvey, converge
from pylaunch.provision.desired import Content, Desired
from pylaunch.provision.observed.drift import Change
from pylaunch.transport.runner import PlaybookResult, PlaybookRun


def test_roles_that_differ_nowhere_are_skipped_with_their_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("firewall", "python_env", "time_sync"):
        (tmp_path / name).mkdir()
    cluster = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
    changes = {"n1": (), "n2": (Change("time_sync", "package chrony", "not installed"),)}
    answers = {name: Unreachable("not asked") for name in cluster.names}
    found = ProvisionSurvey(Desired({}, ("firewall", "time_sync")), answers, changes, {})
    runs: list[PlaybookRun] = []

    def recorded(run: PlaybookRun, **_: object) -> PlaybookResult:
        runs.append(run)
        return PlaybookResult({}, (), {})

    monkeypatch.setattr(convergence, "run_playbook", recorded)
    monkeypatch.setattr(convergence, "disconnect", lambda cluster: None)
    monkeypatch.setattr(convergence, "_judged", lambda request, desired, on_answer: found)
    converge(ProvisionRequest(cluster, Content(tmp_path / "site.yml", tmp_path)), found)
    (run,) = runs
    assert run.cluster.names == ("n2",)
    assert (run.tags, run.skip_tags) == (("time_sync",), ("firewall", "python_env"))
