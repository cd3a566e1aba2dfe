"""Output of `clean` for many hosts in the same state."""

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.checks.occupancy import clean as workflows_clean
from pylaunch.checks.occupancy.look import HostView, Occupancy, Occupant, Swept
from pylaunch.cli.commands.maintain import clean
from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.probe.ask import Unreachable
from pylaunch.protocol.readings.hosts import CleanupReading
from pylaunch.runs import start_checks

CLUSTER = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, 7)))


def swept(removed: tuple[str, ...] = ()) -> Swept:
    cleanup: CleanupReading = {
        "removed": [*removed], "ended": [], "left": [], "survives": [],
        "known": True, "restarted": False, "error": "",
    }  # fmt: skip
    return Swept(cleanup, HostView(Occupancy(), (), None, {}, ()))


def test_hosts_with_the_same_leftovers_are_one_line_of_clean(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("socket agent.sock of dead run 7f3a", "files of run 1b2c")
    answers = {
        **{name: swept(both) for name in ("n1", "n2", "n3")},
        "n4": swept((*both, "pid 7 (python) of dead run 7f3a")),
    }
    monkeypatch.setattr(clean, "hosts_to_ask", lambda inventory, limit: CLUSTER.only(answers))
    monkeypatch.setattr(workflows_clean, "sweep", lambda cluster, port, targets, dry_run: (answers, {}))
    assert run(["clean", "--dry-run"]) == ExitCode.DONE
    assert capsys.readouterr().err.splitlines() == [
        "n[1-4]: would remove socket agent.sock of dead run 7f3a",
        "n[1-4]: would remove files of run 1b2c",
        "n4: would remove pid 7 (python) of dead run 7f3a",
    ]


def test_what_a_dead_run_left_does_not_survive_a_signal_that_it_never_got(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = Occupant(7, 1, 1.0, "me", "python", "", (), (), is_rank=True, run=None)
    found = swept()
    found.cleanup["left"].append("container pylaunch-12ab of run 7f3a (docker): no daemon")
    before = replace(found, after=replace(found.after, occupancy=Occupancy(stale=(stale,))))
    monkeypatch.setattr(clean, "hosts_to_ask", lambda inventory, limit: CLUSTER.only(["n1"]))
    monkeypatch.setattr(clean, "prove_runs", lambda cluster, on_note: [])
    monkeypatch.setattr(
        workflows_clean, "sweep", lambda cluster, port, targets, dry_run: ({"n1": found if targets else before}, {})
    )
    assert run(["clean", "--yes"]) == ExitCode.CLUSTER_NOT_READY
    printed = capsys.readouterr().err
    assert "n1: could not remove container pylaunch-12ab of run 7f3a (docker): no daemon" in printed
    assert "survives SIGKILL" not in printed
    monkeypatch.setattr(start_checks, "look", lambda cluster, port: ({"n1": before.after}, {}))
    monkeypatch.setattr(start_checks, "sweep", lambda cluster, port, targets, dry_run: ({"n1": found}, {}))
    plan = plan_run(CLUSTER.only(["n1"]), JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01")
    emitted: list[str] = []
    start_checks.end_leftovers(plan, lambda event: emitted.append(getattr(event, "text", "")))
    assert emitted == ["n1: could not remove container pylaunch-12ab of run 7f3a (docker): no daemon"]
    monkeypatch.setattr(start_checks, "sweep", lambda *_, dry_run: ({}, {"n1": Unreachable("no key")}))
    start_checks.end_leftovers(plan, lambda event: emitted.append(getattr(event, "text", "")))
    assert emitted[1:] == ["n1: its leftovers are not known to have ended: no key"]
