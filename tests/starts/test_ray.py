"""`pylaunch start --framework ray` with a stand-in for `ray start`: order, arguments, ends. Ray is not installed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.shared import processes
from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

STAND_IN = """\
import os, pathlib, signal, socket, subprocess, sys, time
assert sys.argv[1:3] == ["start", "--block"], sys.argv
given = dict(word[2:].partition("=")[::2] for word in sys.argv[3:])
assert not {"RANK", "WORLD_SIZE", "PYLAUNCH_RANK_SOCKET"}.intersection(os.environ), os.environ
assert (given["min-worker-port"], given["dashboard-agent-listen-port"]) == ("0", "0"), given
assert os.environ["VLLM_HOST_IP"] == given["node-ip-address"] == "127.0.0.1"
role = "head" if "head" in given else "worker"
if role == "head":
    listener = socket.create_server(("127.0.0.1", int(given["port"])))
    address = "127.0.0.1:%d" % listener.getsockname()[1]
else:
    address = given["address"]
    socket.create_connection(address.split(":")).close()
directory = pathlib.Path(given["temp-dir"])
pathlib.Path(os.environ["SEEN"], role).write_text(str(directory))
subprocess.Popen(["sleep", "600"], start_new_session=True)
(directory / "ray_current_cluster").write_text(address)
if os.environ.get("DIES") == role:
    while not pathlib.Path(os.environ["SEEN"], "driver").exists():
        time.sleep(0.05)
    time.sleep(float(os.environ.get("NOTICED_AFTER", "0")))
    print("[state-dump] Event stats:", "----- END raylet.out tail (exit code(s)=-9 (signal 9)) -----", sep="\\n")
    sys.exit(1)
while True:
    signal.pause()
"""
DRIVER = """\
import os, pathlib, signal, socket, sys
seen = pathlib.Path(os.environ["SEEN"])
assert {each.name for each in seen.iterdir()} == {"head", "worker"}
host, port = os.environ["RAY_ADDRESS"].split(":")
socket.create_connection((host, int(port))).close()
(seen / "driver").touch()
print("driver has", sys.argv[1:])
if os.environ.get("DIES") and "CODE" not in os.environ:
    signal.pause()
if os.environ.get("CODE") == "KILL":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def start(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "ray/scripts").mkdir(parents=True)
    (tmp_path / "ray/scripts/scripts.py").write_text(STAND_IN)
    (tmp_path / "ray-2.60.0.dist-info").mkdir()
    (tmp_path / "ray-2.60.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\n")
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "seen").mkdir()
    cluster = directories("n1", "n2")

    def run(**env: str) -> Any:
        variables = {"PYTHONPATH": str(tmp_path), "SEEN": str(tmp_path / "seen"), **env}
        words = [f"--env={name}={value}" for name, value in variables.items()]
        common = ("--workdir", str(tmp_path), "--python", "/usr/bin/python3", "--framework", "ray")
        done = ended(cluster.begin("start", "-i", str(cluster.inventory), *common, *words, "driver.py", "--steps", "3"))
        nothing_is_left(tmp_path)
        return done

    return run


def nothing_is_left(directory: Path) -> None:
    used = [Path((directory / "seen" / role).read_text()) for role in ("head", "worker")]
    assert all(len(f"{path}") < 40 for path in used)  # Ray adds 65 bytes for its sockets.
    assert not [path for path in used if path.exists()]
    marks = [processes.environment(each.pid).get("SEEN") for each in processes.mine()]
    assert f"{directory}/seen" not in marks


def test_the_driver_runs_when_all_nodes_have_joined_and_its_end_ends_the_cluster(start: Callable[..., Any]) -> None:
    run = start()
    assert run.returncode == ExitCode.DONE, run.stderr
    assert "driver has ['--steps', '3']" in run.stdout
    assert "2 ranks on n[1-2] exited with code 0" in run.stderr


def test_a_driver_that_is_killed_is_not_an_exception_of_ours(start: Callable[..., Any]) -> None:
    run = start(CODE="KILL")
    assert run.returncode == ExitCode.JOB_FAILED, run.stderr
    assert "rank 0 on n1 was killed by SIGKILL" in run.stderr


def test_a_driver_that_fails_before_the_death_of_a_daemon_is_noticed_leaves_the_blame_to_it(
    start: Callable[..., Any],
) -> None:
    run = start(DIES="worker", CODE="1", NOTICED_AFTER="0.3")
    assert "rank 1 on n2 exited with code 1" in run.stderr
    assert "raylet.out tail (exit code(s)=-9 (signal 9))" in run.stderr
    assert "error: Ray on this node ended with exit status 1" in run.stderr


@pytest.mark.parametrize(("role", "rank"), [("head", "rank 0 on n1"), ("worker", "rank 1 on n2")])
def test_the_node_whose_ray_ends_is_named(start: Callable[..., Any], role: str, rank: str) -> None:
    run = start(DIES=role)
    assert run.returncode == ExitCode.JOB_FAILED, run.stderr
    assert f"{rank} exited with code 1" in run.stderr
    assert "raylet.out tail (exit code(s)=-9 (signal 9))" in run.stderr
    assert "error: Ray on this node ended with exit status 1" in run.stderr
    assert "state-dump" not in run.stdout + run.stderr
