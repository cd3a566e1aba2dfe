"""Ansible runs for the hosts and roles that differ, and for nothing else; batches and differences of files."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.provision import convergence
from pylaunch.features.provision.batches import batches
from pylaunch.features.provision.convergence import ProvisionOptions, ProvisionRequest, ProvisionSurvey, converge
from pylaunch.features.provision.file_lines import FileDifference, file_lines, planned
from pylaunch.features.provision.inputs import Wanted
from pylaunch.features.provision.manifest import NO_RECORD, OTHER_INPUTS, Change
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable
from pylaunch.transport.runner import Failure, PlaybookResult, PlaybookRun, TaskChange


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
        return PlaybookResult({}, (), {})

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


def changed(task: str, before: str | None = None, after: str = "", role: str = "time_sync") -> TaskChange:
    diff = {"before": before, "after": after, "before_header": "/etc/a (content)", "after_header": "/tmp/x"}
    return TaskChange("n1", role, task, () if before is None else (diff,))


def test_lines_that_come_and_go_are_counted_without_the_names_of_the_files() -> None:
    ((difference,),) = file_lines([changed("Write", "one\ntwo\nthree\n", "one\n2\nthree\nfour\n")]).values()
    assert difference.count == "+2 -1"
    assert difference.lines[:2] == ("--- /etc/a", "+++ /etc/a")


def test_a_file_that_is_missing_is_all_new_and_one_whose_mode_differs_has_no_lines() -> None:
    lines = ("--- /dev/null", "+++ /etc/a", "@@ -0,0 +1 @@", "+one")
    assert file_lines([changed("Write", "", "one\n")]) == {"n1": (FileDifference("time_sync", "/etc/a", lines),)}
    assert file_lines([changed("Write", "one\n", "one\n")]) == {}


def test_a_plan_names_what_drifted_and_what_check_mode_adds_each_once() -> None:
    drifted = Change("time_sync", "/etc/a", "content differs")
    tasks = (changed("Write", "one\n", "two\n"), changed("Restart"))
    added = (changed("Install", role="firewall"), changed("Write", "", "one\n", role="ssh_access"))
    found = [drifted, *(Change(role, OTHER_INPUTS, "x") for role in ("time_sync", "firewall", "nccl_env"))]
    states = ({"path": "/etc/d", "state": "absent"}, {"path": "/etc/d", "state": "directory"})
    made = TaskChange("n1", "ssh_access", "Create", ({"path": "/etc/d", "before": states[0], "after": states[1]},))
    failure = Failure("n1", "ssh_access", "Validate", "expected a key\nmore")
    plan = planned(found, "n1", PlaybookResult({}, (failure,), {}, (*tasks, *added, made)))
    assert plan == (
        drifted,
        Change("firewall", "Install", "would change"),
        Change("ssh_access", "/etc/a", "content differs"),
        Change("ssh_access", "/etc/d", "missing"),
        Change("ssh_access", "Validate", "would fail: expected a key"),
        Change("nccl_env", OTHER_INPUTS, "x"),
    )
    assert planned([Change("firewall", NO_RECORD, "x")], "n2", PlaybookResult({}, (), {}, added)) == (
        Change("firewall", NO_RECORD, "x"),
    )
