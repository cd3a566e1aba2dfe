"""The end of a run, with the proofs that its nodes are clean."""

import json
import os
from pathlib import Path

import pytest

from pylaunch.agent.piped import cleanup
from pylaunch.agent.shared.clean import KEPT_RUNS
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.slurm_job import JobState, SlurmNode
from pylaunch.runs import proof
from pylaunch.runs.proof import finish, prove_runs
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


def test_a_machine_without_a_file_of_a_run_that_ran_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address that moved leads to another machine: no process of the run is there, and its ranks may run on."""
    tmp_path.chmod(0o700)
    root = Host("n1", "10.0.0.1", node_root=str(tmp_path))
    plan = plan_run(Cluster((root,)), JobSpec(("true",), Framework.COMMAND, "/tmp"), "7f3a9c01")

    def proven(began: float | None) -> proof.NodeProof:
        cleanup.of_run(str(tmp_path), plan.run, "n1", began=began or 0.0, grace_s=None)
        answer = json.loads(capsys.readouterr().out)
        monkeypatch.setattr(proof, "ask", lambda cluster, programs, how: None)
        monkeypatch.setattr(proof, "parted", lambda answers, cluster: ({"n1": answer}, {}))
        return proof.end(plan, ["n1"], 0.0, began)["n1"]

    assert proven(None).is_clean, "a node that was never prepared has no file of the run"
    assert not proven(5000.0).is_clean
    assert "10.0.0.1: no file of the run is there: it may be another machine" in proven(5000.0).words
    for number in range(KEPT_RUNS):
        other = tmp_path / "runs" / f"{number:08x}"
        other.mkdir(parents=True)
        os.utime(other, (6000.0 + number,) * 2)
    assert proven(5000.0).is_clean, "newer runs took the place of its files"
    assert not proven(6001.0).is_clean, "the files of older runs are there"
    (tmp_path / "runs" / "00000000").rename(tmp_path / "runs" / plan.run)
    assert proven(6001.0).is_clean


def test_runs_are_proven_clean_at_the_addresses_of_their_own_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    runs.begin(PLAN, "0123", 0.0)
    runs.Recorder(PLAN.run, pytest.fail).finish(CANCELLED)
    monkeypatch.setattr(proof, "leftover_processes", lambda record, hosts: {})
    assert [each.run for each in prove_runs(PLAN.cluster)] == [PLAN.run]
    assert prove_runs(Cluster((Host("n1", "10.9.9.1"), Host("n3", "10.0.0.1")))) == []
