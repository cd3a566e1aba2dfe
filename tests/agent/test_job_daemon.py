"""The daemon of a Slurm job: its supervisors outlive relays and end with it; it ends without a run."""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.sockets import local_socket
from pylaunch.model.cluster import Connection, Host
from pylaunch.runs.connect.agent_link import enter
from pylaunch.runs.prepare import launch
from tests.agent.controller import Controller, Node, gone, is_alive, task
from tests.waiting import DEADLINE_S, wait_until

LONG_S = "600"
StartDaemon = Callable[[str], "subprocess.Popen[bytes]"]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def start_daemon(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[StartDaemon]:
    """Start the daemon of job 7 with these idle seconds; relays of this story are steps of that job."""
    monkeypatch.setenv("PYLAUNCH_SLURM_JOB", "7")
    assert node.ask("node").returncode == 0
    started: list[subprocess.Popen[bytes]] = []

    def start(idle_s: str) -> subprocess.Popen[bytes]:
        daemon = subprocess.Popen(node.words("job", "--job", "7", "--idle", idle_s))
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.kill()
        daemon.wait()


def test_the_supervisor_of_a_run_is_a_child_of_the_daemon_and_outlives_its_relay(
    node: Node, tmp_path: Path, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(LONG_S)
    first = node.started(task(tmp_path, "sleep 600"))
    rank, supervisor = first.pid(0), node.supervisor(first)
    assert parent(supervisor) == daemon.pid
    first.disconnect()
    again = node.attach()
    again.until(protocol.Hello)
    assert node.supervisor(again) == supervisor
    assert is_alive(rank)
    again.send(protocol.Stop(0.0, "enough", by_hand=True))
    gone(supervisor, rank)
    assert daemon.poll() is None


def test_a_signal_of_slurm_stops_the_ranks_before_the_daemon_ends(
    node: Node, tmp_path: Path, start_daemon: StartDaemon
) -> None:
    daemon = start_daemon(LONG_S)
    saved = tmp_path / "checkpoint"
    rank = f"trap 'touch {saved}; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    controller = node.started(task(tmp_path, rank))
    controller.until(protocol.Output)
    daemon.send_signal(signal.SIGTERM)
    ended = controller.until(protocol.RankEnd)
    assert ended.exit_code == 0
    assert saved.exists()
    controller.until(protocol.Finished)
    controller.disconnect()
    assert daemon.wait(DEADLINE_S) == 1


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGUSR1, 0), (signal.SIGUSR2, 1)])
def test_the_controller_chooses_the_exit_status_of_the_job(
    node: Node, start_daemon: StartDaemon, signum: signal.Signals, status: int
) -> None:
    daemon = start_daemon(LONG_S)
    wait_until((node.root / "jobs" / "7.sock").exists, "the daemon listens")
    opened = node.open()
    opened.until(protocol.Hello)
    opened.disconnect()
    daemon.send_signal(signum)
    assert daemon.wait(DEADLINE_S) == status


def test_a_daemon_without_a_run_ends(node: Node, start_daemon: StartDaemon) -> None:
    daemon = start_daemon("0.2")
    assert daemon.wait(DEADLINE_S) == 0


def connections(path: Path) -> list[socket.socket]:
    """Return a connection to the listener at `path`, if there is one."""
    with contextlib.suppress(OSError):
        return [local_socket.connect(str(path))]
    return []


def has_socket(pid: int) -> bool:
    """Return True if the process `pid` has a socket."""
    with contextlib.suppress(FileNotFoundError):  # A descriptor that is closed meanwhile.
        return any(str(each.readlink()).startswith("socket:") for each in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_a_spare_keeps_its_daemon_alive_until_its_controller_leaves(node: Node, start_daemon: StartDaemon) -> None:
    words = node.words("keep", "--run", "r1")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as spare:
        assert spare.stdin is not None
        daemon = start_daemon("4")  # The spare is waiting for it, or still starting.
        (ours,) = wait_until(lambda: connections(node.root / "jobs" / "7.sock"), "the daemon listens")
        with ours:
            wait_until(lambda: has_socket(spare.pid), "the spare is connected")
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.wait(5.0)
        spare.stdin.close()
    assert daemon.wait(DEADLINE_S) == 0


def opened_as_in_a_job(node: Node, *, run: str = "r1") -> Controller:
    """Open a connection with the words that a controller gives to srun."""
    host = Host("n1", "n1", Connection.SLURM, slurm_job="7", node_root=str(node.root), agent_python=sys.executable)
    return node.connected([*enter(host, launch.build().version, "open", run)])


def test_a_connection_of_a_job_waits_for_the_daemon_which_starts_the_supervisor(
    node: Node, tmp_path: Path, start_daemon: StartDaemon
) -> None:
    relay = opened_as_in_a_job(node)  # Before the daemon.
    daemon = start_daemon(LONG_S)
    assert parent(relay.until(protocol.Hello).pid) == daemon.pid
    relay.send(protocol.Prepare(task(tmp_path, "read line; sleep 600"), {}))
    relay.until(protocol.Ready)
    again = opened_as_in_a_job(node)
    assert parent(again.until(protocol.Hello).pid) == daemon.pid
    relay.disconnect()
    assert relay.process.returncode == 0


def test_a_connection_of_a_job_reports_why_no_run_is_reached(
    node: Node, tmp_path: Path, start_daemon: StartDaemon
) -> None:
    start_daemon(LONG_S)
    controller = node.ran(task(tmp_path, "true"))
    controller.disconnect()
    gone(node.supervisor(controller))
    assert opened_as_in_a_job(node).until(protocol.Failed).message == "run r1 is over on this host"
    refused = opened_as_in_a_job(node, run="../r1").until(protocol.Failed)
    assert refused.message.startswith("run id: expected letters")


@pytest.mark.parametrize("name", ["agent.sock", "agent.log"])
def test_a_supervisor_that_cannot_be_started_leaves_no_lock_and_no_second_daemon(
    node: Node, start_daemon: StartDaemon, name: str
) -> None:
    daemon = start_daemon(LONG_S)
    obstacle = node.root / "runs" / "r1" / name
    obstacle.mkdir(parents=True)
    failed = opened_as_in_a_job(node).until(protocol.Failed)
    assert failed.message.startswith("the supervisor of run r1 does not answer")

    def children() -> list[int]:
        return [each.pid for each in processes.mine() if each.parent == daemon.pid and each.state != "Z"]

    wait_until(lambda: not children(), "nothing is left of what was forked")
    obstacle.rmdir()
    assert parent(opened_as_in_a_job(node).until(protocol.Hello).pid) == daemon.pid
