"""A job in the queue of Slurm and at its end; small programs take the place of Slurm's commands."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.features.slurm import allocation
from pylaunch.features.slurm.allocation import (
    Allocation,
    JobNews,
    Pause,
    allocate,
    allocation_here,
    cluster_of,
    end_job,
)
from pylaunch.features.slurm.requeue import JobRequeues, continued_run
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.diagnosis.cause import Certainty, FailureCause
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.slurm_job import JobRequest, SlurmJob, SlurmNode
from pylaunch.store import runs
from pylaunch.store.paths import run_paths

PROGRAMS = {
    "sbatch": "cat > script; [ ! -e refusal ] || { cat refusal >&2; exit 1; }; echo 7",
    "squeue": '[ ! -s silent ] || { sed -i 1d silent; echo "slurm_load_jobs error: Unable to contact slurm controller '
    '(connect failure)" >&2; exit 1; }; head -n 1 states; [ "$(wc -l < states)" -le 1 ] || sed -i 1d states',
    "scontrol": 'case "$*" in *node*) cat nodes;; requeue*) cp after-requeue job; [ ! -e killed ] || . ./killed; '
    "[ ! -e restarted ] || mv restarted away;;"
    '*) [ ! -s away ] || { sed -i 1d away; echo "Unable to contact slurm controller" >&2; '
    "exit 1; }; cat job;; esac",
    "scancel": '[ ! -e deaf ] || { echo "scancel: error: Unable to contact slurm controller" >&2; exit 1; }; '
    'echo "$@" >> cancelled; [ ! -e after-cancel ] || cp after-cancel states',
    "srun": "cat devices",
}
NODES = """\
NodeName=n1 NodeAddr=10.0.0.1 State=ALLOCATED
NodeName=n2 NodeAddr=10.0.0.2 State=ALLOCATED
"""
PENDING = "7|PENDING|{}|{}||7\n"
RUNNING = "7|RUNNING|None|2026-11-22T18:42:16|n[1-2]|7\n"


class FakeSlurm:
    """Files that the programs read and write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pauses: list[float] = []
        self.write(nodes=NODES, job="JobId=7 Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES= MinCPUsNode=1\n", cancelled="")
        for name, body in PROGRAMS.items():
            program = directory / name
            program.write_text(f'#!/bin/sh\necho "$@" >> {name}.words\ncd {directory}\n{body}\n')
            program.chmod(0o755)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.directory / name.replace("_", "-")).write_text(text)

    def read(self, name: str) -> str:
        return (self.directory / name).read_text()

    def pause(self, seconds: float) -> None:
        """Note the pause between two requests, and return at once."""
        self.pauses.append(seconds)


def lines(events: list[JobNews]) -> list[str]:
    """Return the lines without times."""
    return [re.sub(r"after [\d.]+ s", "after T s", each.line) for each in events]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return FakeSlurm(tmp_path)


def test_the_queue_is_shown_when_it_changes_and_polled_less_and_less(slurm: FakeSlurm) -> None:
    waiting = PENDING.format("Resources", "N/A") * 3 + PENDING.format("Resources", "2026-11-22T19:40:30") * 30
    slurm.write(states=waiting + RUNNING)
    events: list[JobNews] = []
    granted = allocate(JobRequest(2, options=("--partition=lab",)), events.append, slurm.pause)
    assert lines(events) == [
        "Slurm job 7 submitted: 2 nodes",
        "Slurm job 7 is PENDING (Resources)",
        "Slurm job 7 is PENDING (Resources), estimated start 2026-11-22 19:40:30",
        "Slurm job 7 has n[1-2] after T s",
    ]
    assert slurm.pauses == sorted(slurm.pauses)
    assert (slurm.pauses[0], slurm.pauses[-1]) == (0.05, 10.0)
    assert [(host.name, host.address, host.connection, host.slurm_job) for host in granted.cluster.hosts] == [
        ("n1", "10.0.0.1", Connection.SLURM, "7"),
        ("n2", "10.0.0.2", Connection.SLURM, "7"),
    ]
    assert slurm.read("sbatch.words").split()[-1] == "--partition=lab"
    assert slurm.read("script").startswith("#!/bin/sh\n# Written by pylaunch")
    assert not slurm.read("cancelled")


def test_a_controller_of_slurm_that_is_restarted_costs_no_place_in_the_queue(slurm: FakeSlurm) -> None:
    slurm.write(states=PENDING.format("Resources", "N/A") + RUNNING, silent="\n" * 3)
    events: list[JobNews] = []
    allocate(JobRequest(2), events.append, slurm.pause)
    shown = lines(events)
    assert "Unable to contact slurm controller" in shown[1]
    assert shown[1].endswith("asking again about job 7")
    assert shown[2:] == ["Slurm job 7 is PENDING (Resources)", "Slurm job 7 has n[1-2] after T s"]
    assert not slurm.read("cancelled")


def test_a_wait_ends_when_slurm_does_not_answer_any_more_and_a_job_that_is_left_is_named(slurm: FakeSlurm) -> None:
    slurm.write(states=RUNNING, silent="\n" * 999, deaf="")
    events: list[JobNews] = []
    with pytest.raises(ClusterNotReadyError, match="Unable to contact slurm controller"):
        allocate(JobRequest(2), events.append, slurm.pause)
    assert allocation.SILENT_S <= sum(slurm.pauses) < allocation.SILENT_S + 2 * allocation.LAST_POLL_S
    assert len(events) == 3
    assert "asking again" in events[1].line
    assert events[2].line.endswith("job 7 was not ended: scancel 7")


def test_the_end_of_a_run_stands_when_slurm_does_not_answer(slurm: FakeSlurm) -> None:
    slurm.write(states=RUNNING, deaf="")
    events: list[JobNews] = []
    end_job("7", events.append, is_good=True, pause=slurm.pause)
    assert [each.line.endswith("job 7 was not ended: scancel 7") for each in events] == [True]


def test_nodes_of_one_job_may_differ_in_their_devices(slurm: FakeSlurm) -> None:
    gres = "JobId=7 Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1) Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3) x=1\n"
    slurm.write(states=RUNNING, job=gres, devices="n1|0,1\nn2|0\n")
    granted = allocate(JobRequest(2), lambda event: None, slurm.pause)
    assert [host.devices for host in granted.cluster.hosts] == [(0, 1), (0,)]


def test_the_job_of_this_shell_costs_two_questions_at_once_and_the_answer_of_slurm_holds(slurm: FakeSlurm) -> None:
    slurm.write(job="JobId=7 JobState=RUNNING NodeList=n[1-2] Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES= x=1\n")
    here = allocation_here(("7",), ("n[1-2]",), lambda event: None)
    assert here.cluster.names == ("n1", "n2")
    asked = sorted(slurm.read("scontrol.words").splitlines())
    assert asked == ["--oneliner --details show job 7", "--oneliner show node n[1-2]"]
    assert not (slurm.directory / "squeue.words").exists()

    allocation_here(("7",), ("n[1-3]",), lambda event: None)
    assert slurm.read("scontrol.words").splitlines()[2:].count("--oneliner show node n[1-2]") == 1


def test_a_job_of_this_shell_that_does_not_run_is_refused(slurm: FakeSlurm) -> None:
    slurm.write(job="JobId=7 JobState=CANCELLED NodeList=n[1-2]\n")
    with pytest.raises(ClusterNotReadyError, match=r"SLURM_JOB_ID is 7, and Slurm job 7 does not run \(CANCELLED\)"):
        allocation_here(("7",), (), lambda event: None)


@pytest.mark.parametrize("reason", sorted(allocation.NEVER))
def test_a_job_that_can_never_run_is_cancelled(slurm: FakeSlurm, reason: str) -> None:
    slurm.write(states=PENDING.format("None", "N/A") + PENDING.format(reason, "N/A"))
    events: list[JobNews] = []
    with pytest.raises(ClusterNotReadyError, match=f"Slurm job 7 can never run as it is requested: {reason}") as caught:
        allocate(JobRequest(2), events.append, slurm.pause)
    assert caught.value.hint == allocation.NEVER[reason]
    assert slurm.read("cancelled") == "7\n"
    assert events[-1] == JobNews("Slurm job 7 cancelled")


def test_a_job_that_ends_in_the_queue_is_reported_with_its_state(slurm: FakeSlurm) -> None:
    slurm.write(states=PENDING.format("Priority", "N/A") + "7|CANCELLED|Priority|N/A||7\n")
    events: list[JobNews] = []
    with pytest.raises(ClusterNotReadyError, match=r"Slurm job 7 ended before it had its nodes \(CANCELLED\)"):
        allocate(JobRequest(2), events.append, slurm.pause)
    assert lines(events) == ["Slurm job 7 submitted: 2 nodes", "Slurm job 7 is PENDING (Priority)"]
    assert not slurm.read("cancelled")


def test_ctrl_c_in_the_queue_cancels_the_job(slurm: FakeSlurm) -> None:
    slurm.write(states=PENDING.format("Resources", "N/A"))

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        allocate(JobRequest(2), lambda event: None, interrupt)
    assert slurm.read("cancelled") == "7\n"


def test_a_refusal_has_the_words_of_sbatch_and_leaves_no_job(slurm: FakeSlurm) -> None:
    slurm.write(
        states=RUNNING,
        refusal="sbatch: error: invalid account\nsbatch: error: Batch job submission failed: Invalid account or "
        "account/partition combination specified\n",
    )
    with pytest.raises(
        ClusterNotReadyError, match="sbatch refused the job: Batch job submission failed: Inv"
    ) as caught:
        allocate(JobRequest(2), lambda event: None, slurm.pause)
    assert caught.value.hint is not None
    assert not slurm.read("cancelled")


def test_a_job_that_cannot_be_planned_is_not_submitted(slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["start", "--scheduler", "slurm", "--nodes", "2", "--spares", "1", "--", "hostname"]
    assert run(words) == ExitCode.USAGE
    assert "hint: --max-restarts 3" in capsys.readouterr().err
    assert not (slurm.directory / "sbatch.words").exists()


def test_without_slurm_in_its_job_a_start_names_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert run(["start", "--workdir", "/tmp", "--", "hostname"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert "no Slurm here: scontrol not found in PATH" in shown
    assert "module load slurm" in shown
    assert "env -u SLURM_JOB_ID" in shown


@pytest.mark.parametrize(("is_good", "signal"), [(True, "USR1"), (False, "USR2")])
def test_a_job_ends_with_the_status_of_its_run(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, is_good: bool, signal: str
) -> None:
    monkeypatch.setattr(allocation, "DAEMONS_END_S", 60.0)
    over = "7|COMPLETED|None|2026-11-22T18:42:16|n[1-2]|7\n"
    slurm.write(states=RUNNING + RUNNING.replace("RUNNING", "COMPLETING") + over)
    events: list[JobNews] = []
    end_job("7", events.append, is_good=is_good, pause=slurm.pause)
    assert slurm.read("cancelled") == f"--signal={signal} 7\n"
    assert events == [JobNews("Slurm job 7 ended: COMPLETED")]


def test_a_job_whose_agents_do_not_end_is_cancelled(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "DAEMONS_END_S", 0.0)
    slurm.write(states=RUNNING)
    ended = "7|CANCELLED|None|2026-11-22T18:42:16|n[1-2]|7\n"

    def cancelled(_: float) -> None:
        slurm.write(states=ended)

    events: list[JobNews] = []
    end_job("7", events.append, is_good=True, pause=cancelled)
    assert slurm.read("cancelled") == "--signal=USR1 7\n7\n"
    assert events == [JobNews("Slurm job 7 ended: CANCELLED")]


def test_a_job_on_a_node_that_does_not_answer_is_reported_and_no_error(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "DAEMONS_END_S", 0.0)
    monkeypatch.setattr(allocation, "ENDS_S", 0.0)
    slurm.write(states="7|COMPLETING|None|2026-11-22T18:42:16|n2|7\n")
    events: list[JobNews] = []
    end_job("7", events.append, is_good=True, pause=slurm.pause)
    line = "note: Slurm job 7 was cancelled and is still COMPLETING on n2: a node does not answer"
    assert events == [JobNews(line)]


PLAN = plan_run(
    Cluster(tuple(Host(name, "10.0.0.1", Connection.SLURM, slurm_job="7") for name in ("n1", "n2"))),
    JobSpec(("train.py",), Framework.DIRECT, "/home/ml", max_requeues=2),
    "7f3a9c01",
)
OUT_OF_TIME = Outcome(Status.STOPPED, "", 0.0, (), {}, out_of_time=True)
LOST = Outcome(
    Status.FAILED, "", 0.0, (), {}, causes=(FailureCause("node-lost", "n2 lost: timed out", Certainty.LIKELY),)
)
LIFE = "JobId=7 JobState={} Restarts={} Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES= x=1\n"


TOO_OFTEN = JobNews(
    "Slurm job 7 is not requeued: --max-requeues is 2, and the job was requeued 2 times; a new start continues from "
    "the last checkpoint"
)
BY_ITS_SCRIPT = JobNews(
    "Slurm job 7 requeued (its time limit, 1 of 2); the run continues as 7f3a9c01.1, when Slurm starts its script again"
)


def requeues(events: list[JobNews], pause: Pause, *, is_ours: bool = True, restarts: int = 0) -> JobRequeues:
    """The requeues of job 7, whose nodes are n1 and n2 of another address."""
    job = SlurmJob("7", (SlurmNode("n1", "10.1.0.1"), SlurmNode("n2", "10.1.0.2")), is_ours=is_ours)
    return JobRequeues(Allocation(job, cluster_of(job), events.append), restarts, pause)


def test_a_job_at_the_end_of_its_time_is_requeued_and_followed_to_its_next_nodes(slurm: FakeSlurm) -> None:
    slurm.write(job=LIFE.format("RUNNING", 0), after_requeue=LIFE.format("PENDING", 1))
    slurm.write(states=PENDING.format("BeginTime", "2026-11-22T19:40:30") + RUNNING)
    events: list[JobNews] = []
    followed = requeues(events, slurm.pause)
    cluster = followed.next_cluster(PLAN, OUT_OF_TIME)
    assert cluster is not None
    assert [host.address for host in cluster.hosts] == ["10.0.0.1", "10.0.0.2"]
    assert lines(events) == [
        "Slurm job 7 requeued (its time limit, 1 of 2); the run continues as 7f3a9c01.1",
        "Slurm job 7 is PENDING (BeginTime), estimated start 2026-11-22 19:40:30",
        "Slurm job 7 has n[1-2] after T s",
    ]
    assert followed.has_nodes()
    assert not slurm.read("cancelled")


def test_a_job_that_has_lost_a_node_is_requeued_as_often_as_permitted(slurm: FakeSlurm) -> None:
    slurm.write(job=LIFE.format("RUNNING", 0), after_requeue=LIFE.format("PENDING", 1), states=RUNNING)
    events: list[JobNews] = []
    assert requeues(events, slurm.pause).next_cluster(PLAN, LOST) is not None
    assert events[0] == JobNews("Slurm job 7 requeued (a lost node, 1 of 2); the run continues as 7f3a9c01.1")
    slurm.write(job=LIFE.format("RUNNING", 2))
    assert requeues(events, slurm.pause, restarts=2).next_cluster(PLAN, LOST) is None
    assert events[-1] == TOO_OFTEN


def test_a_controller_of_slurm_that_is_restarted_costs_a_requeued_job_no_place_in_the_queue(slurm: FakeSlurm) -> None:
    slurm.write(job=LIFE.format("RUNNING", 0), after_requeue=LIFE.format("PENDING", 1), restarted="\n" * 3)
    slurm.write(states=RUNNING)
    events: list[JobNews] = []
    assert requeues(events, slurm.pause).next_cluster(PLAN, OUT_OF_TIME) is not None
    assert [each.line.partition("(")[0] for each in events[:2]] == [
        "Slurm job 7 requeued ", "note: Slurm does not answer ",
    ]  # fmt: skip
    assert lines(events)[2:] == ["Slurm job 7 has n[1-2] after T s"]
    assert not slurm.read("cancelled")


def test_in_a_job_of_somebody_else_its_script_starts_the_next_attempt(slurm: FakeSlurm) -> None:
    slurm.write(job=LIFE.format("RUNNING", 0), after_requeue=LIFE.format("PENDING", 1))
    events: list[JobNews] = []
    assert requeues(events, slurm.pause, is_ours=False).next_cluster(PLAN, OUT_OF_TIME) is None
    assert events == [BY_ITS_SCRIPT]


WITHIN_ITS_JOB = """
from pylaunch.transport import interrupts
from pylaunch.features.slurm.allocation import wait
from tests.starts.test_slurm_jobs import OUT_OF_TIME, PLAN, requeues

interrupts.install("", 130)
events = []
requeues(events, wait, is_ours=False).next_cluster(PLAN, OUT_OF_TIME)
print(*(each.line for each in events))
"""


@pytest.mark.parametrize(
    ("kills", "after", "reported"),
    [
        ("$PPID", "COMPLETING", "Slurm job 7 requeued"),
        ("$PPID $$", "COMPLETING", "Slurm job 7 requeued"),
        ("$PPID $$", "RUNNING", "Slurm job 7 is not requeued"),
    ],
    ids=["this-process", "scontrol-too", "before-the-request"],
)
def test_slurm_ends_a_requeued_job_at_once_and_the_requeue_is_still_reported(
    slurm: FakeSlurm, kills: str, after: str, reported: str
) -> None:
    slurm.write(job=LIFE.format("RUNNING", 0), after_requeue=LIFE.format(after, 0), killed=f"kill -TERM {kills}\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "-c", WITHIN_ITS_JOB]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(reported)


def test_a_job_that_slurm_requeues_too_often_is_cancelled_with_the_reason(slurm: FakeSlurm) -> None:
    slurm.write(job=LIFE.format("PENDING", 3))
    events: list[JobNews] = []
    followed = requeues(events, slurm.pause)
    assert not followed.has_nodes()
    assert followed.next_cluster(PLAN, Outcome(Status.FAILED, "", 0.0, (), {})) is None
    assert events == [TOO_OFTEN]
    assert slurm.read("cancelled") == "7\n"


ELEMENTS = """\
JobId=7 ArrayJobId=7 ArrayTaskId=2 JobState={} Restarts={}
JobId=8 ArrayJobId=7 ArrayTaskId=1 JobState=COMPLETED Restarts=0
"""


def test_of_an_array_only_the_element_of_the_run_is_requeued_or_cancelled(slurm: FakeSlurm) -> None:
    """Job 7 is the last element of the array 7, and Slurm takes 7 for all elements."""
    slurm.write(job=ELEMENTS.format("RUNNING", 0), after_requeue=ELEMENTS.format("PENDING", 1))
    events: list[JobNews] = []
    requeues(events, slurm.pause, is_ours=False).next_cluster(PLAN, OUT_OF_TIME)
    assert events == [BY_ITS_SCRIPT]
    assert slurm.read("scontrol.words").splitlines()[-1] == "requeue 7_2"
    slurm.write(job=ELEMENTS.format("PENDING", 3))
    requeues(events, slurm.pause, is_ours=False).next_cluster(PLAN, OUT_OF_TIME)
    assert slurm.read("cancelled") == "7_2\n"


def test_a_requeued_job_that_is_cancelled_in_the_queue_ends_the_run(slurm: FakeSlurm) -> None:
    slurm.write(job=LIFE.format("PENDING", 1), states="7|CANCELLED|None|N/A||7\n")
    with pytest.raises(ClusterNotReadyError, match=r"Slurm job 7 ended before it had its nodes \(CANCELLED\)"):
        requeues([], slurm.pause).next_cluster(PLAN, OUT_OF_TIME)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_script_that_slurm_starts_again_continues_its_last_run(state: None) -> None:
    notes: list[str] = []
    runs.begin(PLAN, "0123", 1.0)
    now = replace(PLAN, run="11112222")
    after = continued_run(now, "7", 1, notes.append)
    assert (after.run, after.restart) == ("7f3a9c01.1", 1)
    assert notes == ["Slurm job 7 was requeued 1 time: run 7f3a9c01 continues as 7f3a9c01.1"]
    outcome = runs.read("7f3a9c01").outcome
    assert outcome is not None
    assert outcome.reason == "Slurm ended job 7 and put it into the queue again"

    runs.begin(after, "0123", 2.0)
    os.utime(run_paths(after.run).plan, (3e9, 3e9))
    assert continued_run(now, "7", 2, notes.append).run == "7f3a9c01.2"


def test_a_run_of_another_job_or_command_or_one_that_is_done_is_not_continued(state: None) -> None:
    notes: list[str] = []
    runs.begin(PLAN, "0123", 1.0)
    other = replace(PLAN, run="11112222", job=replace(PLAN.job, command=("other.py",)))
    for job, plan in (("8", replace(PLAN, run="11112222")), ("7", other)):
        after = continued_run(plan, job, 2, notes.append)
        assert (after.run, after.restart) == ("11112222.2", 2)
    assert all("no record of its run is here" in note for note in notes)
    runs.Recorder(PLAN.run, notes.append).finish(Outcome(Status.DONE, "", 2.0, (), {}))
    assert continued_run(replace(PLAN, run="11112222"), "7", 1, notes.append).run == "11112222"


def test_a_script_that_slurm_starts_too_often_is_refused(state: None) -> None:
    with pytest.raises(ClusterNotReadyError, match="was requeued 3 times, and --max-requeues is 2"):
        continued_run(PLAN, "7", 3, lambda text: None)
