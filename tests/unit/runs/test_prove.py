"""The end of a run, with the proofs that its nodes are clean."""

from __future__ import annotations

import pytest

from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.slurm_job import JobState, SlurmNode
from pylaunch.runs.existing import proof
from pylaunch.runs.prove import finish
from pylaunch.store import runs
from pylaunch.transport.slurm import commands

HOSTS = tuple(Host(name, f"10.0.0.{name[1:]}", Connection.SLURM, slurm_job="7") for name in ("n1", "n2"))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("true",), Framework.COMMAND, "/tmp"), "7f3a9c01")
CANCELLED = Outcome(Status.STOPPED, "Slurm job 7 was cancelled (scancel)", 1.0, (), {}, ("n1", "n2"), by_hand=True)


@pytest.mark.parametrize(("state", "unproven"), [("CANCELLED", ("n2",)), ("COMPLETING", ("n1", "n2"))])
def test_slurm_proves_nodes_clean_that_answer_it_once_their_job_has_ended(
    state: str, unproven: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = (SlurmNode("n1", "10.0.0.1"), SlurmNode("n2", "10.0.0.2", answers=False))
    monkeypatch.setattr(commands, "job_state", lambda job: JobState(state))
    monkeypatch.setattr(commands, "nodes_of", lambda listed: nodes)
    monkeypatch.setattr(proof, "end", None)
    runs.begin(PLAN, "0123", 0.0)
    ended = finish(PLAN, CANCELLED, runs.Recorder(PLAN.run, pytest.fail), lambda notice: pytest.fail(notice.text))
    assert (ended.status, ended.reason, ended.unproven) == (Status.STOPPED, CANCELLED.reason, unproven)
    recorded = runs.read(PLAN.run).outcome
    assert recorded is not None
    assert recorded.unproven == unproven
