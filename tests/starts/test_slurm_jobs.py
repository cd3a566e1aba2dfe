"""A job in the queue of Slurm and at its end; small programs take the place of Slurm's commands."""

import os
import re
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.features.slurm import allocation
from pylaunch.features.slurm.allocation import allocate, allocation_here, end_job
from pylaunch.model.cluster import Connection
from pylaunch.model.slurm_job import JobRequest

PROGRAMS = {
    "sbatch": "cat > script; [ ! -e refusal ] || { cat refusal >&2; exit 1; }; echo 7",
    "squeue": '[ ! -s silent ] || { sed -i 1d silent; echo "slurm_load_jobs error: Unable to contact slurm controller '
    '(connect failure)" >&2; exit 1; }; head -n 1 states; [ "$(wc -l < states)" -le 1 ] || sed -i 1d states',
    "scontrol": 'case "$*" in *node*) cat nodes;; *) cat job;; esac',
    "scancel": '[ ! -e deaf ] || { echo "scancel: error: Unable to contact slurm controller" >&2; exit 1; }; '
    'echo "$@" >> cancelled; [ ! -e after-cancel ] || cp after-cancel states',
    "srun": "cat devices",
}
NODES = """\
NodeName=n1 NodeAddr=10.0.0.1 State=ALLOCATED
NodeName=n2 NodeAddr=10.0.0.2 State=ALLOCATED
"""
PENDING = "7|PENDING|{}|{}|\n"
RUNNING = "7|RUNNING|None|2026-11-22T18:42:16|n[1-2]\n"


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


def lines(events: list[str]) -> list[str]:
    """Return the lines without times."""
    return [re.sub(r"after [\d.]+ s", "after T s", each) for each in events]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return FakeSlurm(tmp_path)


def test_the_queue_is_shown_when_it_changes_and_polled_less_and_less(slurm: FakeSlurm) -> None:
    waiting = PENDING.format("Resources", "N/A") * 3 + PENDING.format("Resources", "2026-11-22T19:40:30") * 30
    slurm.write(states=waiting + RUNNING)
    events: list[str] = []
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
    assert slurm.read("sbatch.words").split()[-2:] == ["--partition=lab", "--no-requeue"]
    assert slurm.read("script").startswith("#!/bin/sh\n# Written by pylaunch")
    assert not slurm.read("cancelled")


def test_a_controller_of_slurm_that_is_restarted_costs_no_place_in_the_queue(slurm: FakeSlurm) -> None:
    slurm.write(states=PENDING.format("Resources", "N/A") + RUNNING, silent="\n" * 3)
    events: list[str] = []
    allocate(JobRequest(2), events.append, slurm.pause)
    shown = lines(events)
    assert "Unable to contact slurm controller" in shown[1]
    assert shown[1].endswith("asking again about job 7")
    assert shown[2:] == ["Slurm job 7 is PENDING (Resources)", "Slurm job 7 has n[1-2] after T s"]
    assert not slurm.read("cancelled")


def test_a_wait_ends_when_slurm_does_not_answer_any_more_and_a_job_that_is_left_is_named(slurm: FakeSlurm) -> None:
    slurm.write(states=RUNNING, silent="\n" * 999, deaf="")
    events: list[str] = []
    with pytest.raises(ClusterNotReadyError, match="Unable to contact slurm controller"):
        allocate(JobRequest(2), events.append, slurm.pause)
    assert allocation.SILENT_S <= sum(slurm.pauses) < allocation.SILENT_S + 2 * allocation.LAST_POLL_S
    assert len(events) == 3
    assert "asking again" in events[1]
    assert events[2].endswith("job 7 was not ended: scancel 7")


def test_a_job_of_this_shell_that_does_not_run_is_refused(slurm: FakeSlurm) -> None:
    slurm.write(job="JobId=7 JobState=CANCELLED NodeList=n[1-2]\n")
    with pytest.raises(ClusterNotReadyError, match=r"SLURM_JOB_ID is 7, and this Slurm job does not run \(CANCELLED\)"):
        allocation_here("7", lambda event: None)


@pytest.mark.parametrize("reason", sorted(allocation.NEVER))
def test_a_job_that_can_never_run_is_cancelled(slurm: FakeSlurm, reason: str) -> None:
    slurm.write(states=PENDING.format("None", "N/A") + PENDING.format(reason, "N/A"))
    events: list[str] = []
    with pytest.raises(ClusterNotReadyError, match=f"Slurm job 7 can never run as it is requested: {reason}"):
        allocate(JobRequest(2), events.append, slurm.pause)
    assert slurm.read("cancelled") == "7\n"
    assert events[-1] == "Slurm job 7 cancelled"


def test_a_job_that_ends_in_the_queue_is_reported_with_its_state(slurm: FakeSlurm) -> None:
    slurm.write(states=PENDING.format("Priority", "N/A") + "7|CANCELLED|Priority|N/A|\n")
    events: list[str] = []
    with pytest.raises(ClusterNotReadyError, match=r"Slurm job 7 was cancelled \(scancel\) before it had its nodes"):
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
    over = "7|COMPLETED|None|2026-11-22T18:42:16|n[1-2]\n"
    slurm.write(states=RUNNING + RUNNING.replace("RUNNING", "COMPLETING") + over)
    events: list[str] = []
    end_job("7", events.append, is_good=is_good, pause=slurm.pause)
    assert slurm.read("cancelled") == f"--signal={signal} 7\n"
    assert events == ["Slurm job 7 ended: COMPLETED"]


def test_a_job_whose_agents_do_not_end_is_cancelled(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "DAEMONS_END_S", 0.0)
    slurm.write(states=RUNNING)
    ended = "7|CANCELLED|None|2026-11-22T18:42:16|n[1-2]\n"

    def cancelled(_: float) -> None:
        slurm.write(states=ended)

    events: list[str] = []
    end_job("7", events.append, is_good=True, pause=cancelled)
    assert slurm.read("cancelled") == "--signal=USR1 7\n7\n"
    assert events == ["Slurm job 7 ended: CANCELLED"]
