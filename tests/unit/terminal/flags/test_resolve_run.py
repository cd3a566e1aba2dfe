"""The run that a command line names, and what is proposed where it names none."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord
from pylaunch.store import runs
from pylaunch.terminal.flags import resolve_run
from pylaunch.terminal.invocation import Invocation


def test_rerun_proposes_no_run_of_a_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = {"aaaaaaaa": ("train.py",), "bbbbbbbb": ("-m", "pylaunch.runtime.communication_test")}
    for number, (run, command) in enumerate(commands.items()):
        job = JobSpec(command, Framework.COMMAND, "/tmp")
        runs.begin(plan_run(Cluster((Host("n1", "10.0.0.1"),)), job, run), "0123", float(number))
        runs.Recorder(run, pytest.fail).finish(Outcome(Status.DONE, "every rank exited with code 0", 9.0, (), {}, ()))
    for verb, proposed in (("rerun", "aaaaaaaa"), ("logs", "bbbbbbbb")):
        monkeypatch.setattr(resolve_run, "current", lambda verb=verb: Invocation(verb))
        with pytest.raises(UsageError) as refused:
            resolve_run.find(None, None)
        assert refused.value.hint is not None
        assert refused.value.hint.startswith(f"pylaunch {verb} {proposed}; ")


def test_a_run_whose_inventory_cannot_be_looked_at_has_the_addresses_of_its_start() -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("/" + "x" * 300,))
    record = RunRecord(plan_run(cluster, JobSpec(("a",), Framework.COMMAND, "/"), "cccccccc"), "0123", 1.0, (), None)
    assert resolve_run.reached_now(record, None) == record
