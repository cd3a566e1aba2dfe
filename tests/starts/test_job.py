"""`pylaunch start job.toml`: servers and a trainer that uses them, on directories of this machine."""

import json
import socket
import subprocess
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import CommandLine, DirectoryCluster, ended
from tests.starts.receiver import receiving

SERVER = """\
import http.server, os, sys
is_mortal = os.environ["TORCHELASTIC_RESTART_COUNT"] + os.environ["PYLAUNCH_REPLICA"] == "00"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die" and is_mortal:
            os._exit(7)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer((sys.argv[2] if sys.argv[2:] else "0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
"""
TRAINER = """\
import sys, urllib.request
from pylaunch import runtime
servers = sys.argv[1].split(",")
assert next(iter(runtime.roles().values())).endpoints["http"] == tuple(servers), runtime.roles()
for path in ("/", *sys.argv[2:]):
    for server in servers:
        urllib.request.urlopen(f"http://{server}{path}").read()
print("trained with", len(servers), "servers")
"""
JOB = """\
name = "rl"
[roles.server]
program = ["server.py", "{{ports.http}}", "{listen}"]
replicas = 2
nodes = 1
ports = ["http"]
ready = "http:http/health"
ready-timeout = {timeout}
service = true

[roles.trainer]
program = ["trainer.py", "{{roles.server.endpoints}}"]
nproc-per-node = 2
after = "server"
"""


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> DirectoryCluster:
    """Three nodes, and the programs in the working directory of the job."""
    for name, text in {"server.py": SERVER, "trainer.py": TRAINER}.items():
        (tmp_path / name).write_text(text)
    return directories("n1", "n2", "n3")


def start(
    cluster: DirectoryCluster, *words: str, code: ExitCode, listen: str = "0.0.0.0", timeout: int = 100
) -> subprocess.CompletedProcess[str]:
    directory = cluster.inventory.parent
    (directory / "job.toml").write_text(JOB.format(listen=listen, timeout=timeout))
    place = () if any(word.startswith("--sync") for word in words) else ("--workdir", str(directory))
    common = (*place, "--python", "/usr/bin/python3", "--framework", "direct")
    before = [word for word in words if word.startswith(("--json", "--dry-run", "--detach", "--notify", "--sync"))]
    after = [word for word in words if word not in before]
    command = ("start", "-i", str(cluster.inventory), *before, *common, str(directory / "job.toml"), *after)
    return ended(cluster.begin(*command), code=code)


def test_the_trainer_starts_when_the_servers_are_ready_and_they_are_stopped_at_its_end(
    cluster: DirectoryCluster,
) -> None:
    job = start(cluster, code=ExitCode.DONE)
    assert job.stdout.count("trained with 2 servers") == 2
    lines = job.stderr.splitlines()
    ready = [at for at, line in enumerate(lines) if " ready (http:http/health): 127.0.0.1:" in line]
    (begun,) = [at for at, line in enumerate(lines) if line.startswith("trainer  started in")]
    assert len(ready) == 2
    assert max(ready) < begun
    assert lines[-1] == "job rl done: trainer done"
    assert sorted(each["status"] for each in cluster.outcomes().values()) == ["done", "stopped", "stopped"]


def test_a_server_that_dies_is_restarted_and_the_trainer_waits_for_it(cluster: DirectoryCluster) -> None:
    restarts = ("--set", "server.max-restarts=1", "--set", "trainer.max-restarts=1")
    dies = 'trainer.program=["trainer.py", "{roles.server.endpoints}", "/die"]'
    job = start(cluster, "--set", dies, *restarts, code=ExitCode.DONE)
    assert "trainer  restart 1 of 1" in job.stderr
    assert job.stderr.count("server.0 ready (http:http/health)") == 2
    assert job.stderr.count("server.1 ready (http:http/health)") == 1


def test_without_restarts_the_server_is_named_and_the_trainer_that_lost_it_is_its_victim(
    cluster: DirectoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    notified: list[dict[str, Any]] = []

    def take(request: BaseHTTPRequestHandler, body: bytes) -> None:
        notified.append(json.loads(body))
        request.send_response(200)
        request.end_headers()

    dies = 'trainer.program=["trainer.py", "{roles.server.endpoints}", "/die"]'
    with receiving(take) as port:
        job = start(cluster, "--json", f"--notify=http://127.0.0.1:{port}/", "--set", dies, code=ExitCode.JOB_FAILED)
    document = documented(job.stdout, "pylaunch start")
    assert [each["part"] for each in document["failed_first"]] == ["server.0"]
    assert "exited with code 7" in document["failed_first"][0]["text"]
    hint = f"pylaunch logs {document['failed_first'][0]['run']}"
    assert hint in job.stderr
    released = {each["part"]: each["released"] for each in document["parts"]}
    assert released["server.0"] == released["server.1"] < released["trainer"]
    assert [each["event"] for each in notified] == ["end"]
    assert notified[0]["text"].startswith(f"pylaunch run {document['id']}: failed: job rl: ")
    assert "failed first: server.0 (run " in notified[0]["text"]


def test_a_server_that_listens_elsewhere_is_never_ready_and_the_reason_is_printed(cluster: DirectoryCluster) -> None:
    job = start(cluster, "--set", "server.replicas=1", listen="127.0.0.2", timeout=3, code=ExitCode.JOB_FAILED)
    assert "error: job rl: server was not ready (http:http/health) within 3 s: 127.0.0.1:" in job.stderr
    assert "connection refused" in job.stderr
    assert "trainer was not started" in job.stderr


def test_an_answer_of_another_process_is_no_readiness(cluster: DirectoryCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        ports = ("--set", f"server.ready=tcp:{port}")
        program = ("--set", 'server.program=["sleep", "600"]', "--set", "server.framework=command")
        job = start(cluster, "--set", "server.replicas=1", *ports, *program, timeout=2, code=ExitCode.JOB_FAILED)
    assert f"listens on port {port}, and is no process of the run" in job.stderr


def test_one_role_that_is_refused_lets_no_rank_of_another_one_start(cluster: DirectoryCluster) -> None:
    job = start(cluster, "--set", "trainer.workdir=/nonexistent", code=ExitCode.CLUSTER_NOT_READY)
    assert "error: job rl: trainer was not started: 1 of 1 hosts cannot take part" in job.stderr
    assert {each["status"] for each in cluster.outcomes().values()} == {"refused", "stopped"}


def begun(cluster: DirectoryCluster, *words: str) -> subprocess.Popen[str]:
    """Start the job with a trainer that waits, once one of its ranks does."""
    directory = cluster.inventory.parent
    (directory / "job.toml").write_text(JOB.format(listen="0.0.0.0", timeout=100))
    (directory / "trainer.py").write_text("import time; print('waits', flush=True); time.sleep(600)")
    place = ("--workdir", str(directory), "--python", "/usr/bin/python3", "--framework", "direct")
    job = cluster.begin("start", "-i", str(cluster.inventory), *place, *words, str(directory / "job.toml"))
    assert job.stdout is not None
    assert "waits" in job.stdout.readline()
    return job


def test_an_interrupt_stops_the_trainer_before_the_servers(cluster: DirectoryCluster) -> None:
    job = begun(cluster)
    job.terminate()
    end = ended(job, code=ExitCode.INTERRUPTED)
    assert end.stderr.splitlines()[-1] == "job rl stopped: pylaunch received SIGTERM"
    assert end.stderr.count("stopping; Ctrl-C again kills at once") == 1
    stops = [line.split()[0] for line in end.stderr.splitlines() if " stopping all nodes: " in line]
    assert stops[0] == "trainer"
    assert sorted(stops[1:]) == ["server.0", "server.1"]


def test_the_id_of_a_job_stands_for_its_runs_and_stop_ends_them_in_order_after_the_controller_has_died(
    cluster: DirectoryCluster,
) -> None:
    controller = begun(cluster, "--node-timeout", "100")
    assert controller.stdout is not None
    assert controller.stderr is not None
    job = controller.stderr.readline().split()[3].rstrip(":")
    assert "waits" in controller.stdout.readline()
    controller.kill()
    controller.communicate()

    listed = documented(cluster.run("ps", "--json").stdout, "pylaunch ps")
    parts = {each["part_of"]["part"]: each["run"] for each in listed["runs"]}
    assert sorted(parts) == ["server.0", "server.1", "trainer"]
    one = cluster.run("status", job, code=ExitCode.USAGE)
    assert all(run in one.stderr for run in parts.values()), "status is about one run, and names those of the job"
    logs = cluster.run("logs", job)
    assert sorted(logs.stdout.splitlines()) == ["trainer  n3:0 | waits", "trainer  n3:1 | waits"]
    stacks = documented(cluster.run("stacks", parts["trainer"], "--json").stdout, "pylaunch stacks")
    assert len(stacks["ranks"]) == 2

    stopped = cluster.run("stop", job, "--json", code=ExitCode.DONE)
    runs = documented(stopped.stdout, "pylaunch stop")["runs"]
    assert runs[0]["run"] == parts["trainer"]
    assert [each["outcome"]["status"] for each in runs] == ["stopped"] * 3
    assert all(host["clean"] for each in runs for host in each["outcome"]["hosts"])
    assert cluster.run("report", job, "-o", "x.html").returncode == ExitCode.USAGE
    again = cluster.run("rerun", job, code=ExitCode.USAGE).stderr
    refused = f"error: {job} is a job of several roles, and rerun takes one run: name one\n  {runs[0]['run']}"
    assert again.startswith(refused)
    elsewhere = CommandLine(cluster.inventory, cluster.state.with_name("elsewhere"))
    known = documented(elsewhere.run("ps", "--all", "-i", str(cluster.inventory), "--json").stdout, "pylaunch ps")
    assert [each["status"] for each in known["runs"]] == ["stopped"] * 3


def test_a_dry_run_shows_each_run_without_secrets_and_contacts_no_host(cluster: DirectoryCluster) -> None:
    for node in cluster.nodes.values():
        node.probe_hangs()
        node.agent_hangs()
    program = 'trainer.program=["trainer.py", "{roles.server.endpoints}", "--password", "hunter2"]'
    image = 'trainer.container="/images/train.sif"'
    job = start(cluster, "--dry-run", "--set", program, "--set", image, code=ExitCode.DONE)
    assert "server.1: 1 rank on n2, http on a free port, here 29598\n" in job.stdout
    assert "trainer.py 127.0.0.1:29599,127.0.0.1:29598 --password '***'" in job.stdout
    assert job.stdout.count("    container: /images/train.sif\n") == 1
    assert "hunter2" not in job.stdout
    assert job.stderr.count("trainer: note: --password: every user of a node can read") == 1


def test_the_example_of_a_server_over_two_nodes_is_ready_when_all_nodes_have_joined(
    cluster: DirectoryCluster, tmp_path: Path
) -> None:
    example = Path(__file__).parents[2] / "examples/vllm"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/vllm").symlink_to(example / "stand_in.py")
    place = ("--workdir", str(example), "--python", "/usr/bin/python3", "--env", f"PATH={tmp_path}/bin:/usr/bin:/bin")
    words = ("start", "-i", str(cluster.inventory), *place, str(example / "nodes.toml"))
    job = ended(cluster.begin(*words), code=ExitCode.DONE)
    assert "Qwen/Qwen2.5-0.5B-Instruct: 'Ranks meet at'" in job.stdout
    # The other node may see the end of the first one before its own signal.
    assert "Application shutdown complete." in job.stdout
