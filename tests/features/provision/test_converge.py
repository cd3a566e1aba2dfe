"""Ansible runs for the hosts and roles that differ, and for nothing else; batches and differences of files."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.provision import convergence
from pylaunch.features.provision.convergence import (
    ProvisionOptions,
    ProvisionRequest,
    ProvisionSurvey,
    batches,
    converge,
)
from pylaunch.features.provision.file_lines import FileDifference, file_lines
from pylaunch.features.provision.inputs import Wanted
from pylaunch.features.provision.manifest import Change
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import NoPython, Unreachable
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, TaskChange


def test_roles_that_differ_nowhere_are_skipped_with_their_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("firewall", "python_env", "time_sync"):
        (tmp_path / name).mkdir()
    cluster = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")), sources=("cluster.ini",))
    changes = {"n1": (), "n2": (Change("time_sync", "package chrony", "not installed"),)}
    answers = {name: Unreachable("not asked") for name in cluster.names}
    found = ProvisionSurvey(Wanted({}, ("firewall", "time_sync")), answers, changes)
    runs: list[PlaybookRun] = []

    def recorded(run: PlaybookRun, **_: object) -> PlaybookResult:
        runs.append(run)
        return PlaybookResult(())

    monkeypatch.setattr(convergence, "run_playbook", recorded)
    monkeypatch.setattr(convergence, "disconnect", lambda cluster: None)
    monkeypatch.setattr(convergence, "_compared", lambda request, wanted: found)
    monkeypatch.setattr("pylaunch.store.content.roles_directory", lambda: tmp_path)
    request = ProvisionRequest(cluster.only(found.to_change), ProvisionOptions(), tmp_path)
    converge(request, found, (found.to_change,), emit=lambda event: None)
    (run,) = runs
    assert run.cluster.names == ("n2",)
    assert (run.tags, run.skip_tags) == (("time_sync",), ("firewall", "python_env"))


HOSTS = tuple(f"n{number}" for number in range(1, 21))


def sizes(serial: str, count: int = 20) -> list[int]:
    cut = batches(HOSTS[:count], serial)
    assert [host for batch in cut for host in batch] == list(HOSTS[:count])
    return [len(batch) for batch in cut]


def test_the_last_size_repeats_and_a_percentage_is_at_least_one_host() -> None:
    assert sizes("1,10%,100%") == [1, 2, 17], "a canary, a few, all the rest"
    assert sizes("1, 8") == [1, 8, 8, 3]
    assert sizes("10%", 3) == [1, 1, 1]


@pytest.mark.parametrize("serial", ["", "0", "0%", "-1", "many", "1,,2", "10%%"])
def test_an_invalid_size_is_refused_with_an_example(serial: str) -> None:
    with pytest.raises(UsageError, match="expected a number of hosts or a percentage") as refused:
        batches(HOSTS, serial)
    assert refused.value.hint == "for example: --serial 1,10%,100%"


def changed(task: str, before: str | None = None, after: str = "") -> TaskChange:
    diff = {"before": before, "after": after, "before_header": "/etc/a (content)", "after_header": "/tmp/x"}
    return TaskChange("n1", "time_sync", task, () if before is None else (diff,))


def test_a_file_that_is_missing_is_all_new_and_one_whose_mode_differs_has_no_lines() -> None:
    lines = ("--- /dev/null", "+++ /etc/a", "@@ -0,0 +1 @@", "+one")
    assert file_lines([changed("Write", "", "one\n")]) == {"n1": (FileDifference("time_sync", "/etc/a", lines),)}
    assert file_lines([changed("Write", "one\n", "one\n"), changed("Restart")]) == {}


def test_a_host_without_an_interpreter_differs_and_gets_all_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("cluster.ini",))
    answers = {"n1": NoPython("/usr/bin/python3")}
    monkeypatch.setattr(convergence, "ask_manifests", lambda *args, **kwargs: answers)
    request = ProvisionRequest(cluster, ProvisionOptions(), Path("environment"))
    found = convergence._compared(request, Wanted({"n1": {"firewall": "d1"}}, ("firewall", "time_sync")))
    assert found.changes == {"n1": (Change("", "python", "no interpreter at /usr/bin/python3"),)}
    assert (found.to_change, found.roles_to_run) == (("n1",), ("firewall", "time_sync"))
