"""`pylaunch start job.toml`: servers and a trainer that uses them, on directories of this machine."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.job import on_node
from pylaunch.features.job.controller import TEST_EVERY_S
from tests.json_pages import has_the_forms, undescribed
from tests.starts.cluster import DirectoryCluster, ended

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
    cluster: DirectoryCluster, *words: str, listen: str = "0.0.0.0", timeout: int = 100
) -> subprocess.CompletedProcess[str]:
    directory = cluster.inventory.parent
    (directory / "job.toml").write_text(JOB.format(listen=listen, timeout=timeout))
    common = ("--workdir", str(directory), "--python", "/usr/bin/python3", "--framework", "direct")
    before = [word for word in words if word in ("--json", "--dry-run")]
    after = [word for word in words if word not in before]
    command = ("start", "-i", str(cluster.inventory), *before, *common, str(directory / "job.toml"), *after)
    return ended(cluster.begin(*command))


def test_the_trainer_starts_when_the_servers_are_ready_and_they_are_stopped_at_its_end(
    cluster: DirectoryCluster,
) -> None:
    job = start(cluster)
    assert job.returncode == ExitCode.DONE, job.stderr
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
    job = start(cluster, "--set", 'trainer.program=["trainer.py", "{roles.server.endpoints}", "/die"]', *restarts)
    assert job.returncode == ExitCode.DONE, job.stderr
    assert "trainer  restart 1 of 1" in job.stderr
    assert job.stderr.count("server.0 ready (http:http/health)") == 2
    assert job.stderr.count("server.1 ready (http:http/health)") == 1


def test_without_restarts_the_server_is_named_and_the_trainer_that_lost_it_is_its_victim(
    cluster: DirectoryCluster,
) -> None:
    job = start(cluster, "--json", "--set", 'trainer.program=["trainer.py", "{roles.server.endpoints}", "/die"]')
    assert job.returncode == ExitCode.JOB_FAILED, job.stderr
    document = json.loads(job.stdout)
    has_the_forms(document)
    assert undescribed(document, "pylaunch start") == set()
    assert [each["part"] for each in document["failed_first"]] == ["server.0"]
    assert "exited with code 7" in document["failed_first"][0]["text"]
    hint = f"pylaunch logs {document['failed_first'][0]['run']}"
    assert hint in job.stderr


def test_a_server_that_listens_elsewhere_is_never_ready_and_the_reason_is_printed(cluster: DirectoryCluster) -> None:
    job = start(cluster, "--set", "server.replicas=1", listen="127.0.0.2", timeout=3)
    assert job.returncode == ExitCode.JOB_FAILED
    assert "error: job rl: server was not ready (http:http/health) within 3 s: 127.0.0.1:" in job.stderr
    assert "connection refused" in job.stderr
    assert "trainer was not started" in job.stderr


def test_an_answer_of_another_process_is_no_readiness(cluster: DirectoryCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        ports = ("--set", f"server.ports={{ http = {port} }}", "--set", f"server.ready=tcp:{port}")
        program = ("--set", 'server.program=["sleep", "600"]', "--set", "server.framework=command")
        job = start(cluster, "--set", "server.replicas=1", *ports, *program, timeout=2)
    assert job.returncode == ExitCode.JOB_FAILED
    assert f"listens on port {port}, and is no process of the run" in job.stderr


def test_one_role_that_is_refused_lets_no_rank_of_another_one_start(cluster: DirectoryCluster) -> None:
    job = start(cluster, "--set", "trainer.workdir=/nonexistent")
    assert job.returncode == ExitCode.CLUSTER_NOT_READY
    assert "error: job rl: trainer was not started: 1 of 1 hosts cannot take part" in job.stderr
    assert {each["status"] for each in cluster.outcomes().values()} == {"refused"}


def test_an_interrupt_stops_the_trainer_before_the_servers(cluster: DirectoryCluster) -> None:
    directory = cluster.inventory.parent
    (directory / "job.toml").write_text(JOB.format(listen="0.0.0.0", timeout=100))
    wait = "import time; print('waits', flush=True); time.sleep(600)"
    (directory / "trainer.py").write_text(wait)
    job = cluster.begin(
        "start", "-i", str(cluster.inventory), "--workdir", str(directory), "--python", "/usr/bin/python3",
        "--framework", "direct", str(directory / "job.toml"),
    )  # fmt: skip
    assert job.stdout is not None
    assert "waits" in job.stdout.readline()
    job.terminate()
    end = ended(job)
    assert end.returncode == ExitCode.INTERRUPTED, end.stderr
    assert end.stderr.splitlines()[-1] == "job rl stopped: pylaunch received SIGTERM"
    assert end.stderr.count("stopping; Ctrl-C again kills at once") == 1
    stops = [line.split()[0] for line in end.stderr.splitlines() if " stopping all nodes: " in line]
    assert stops[0] == "trainer"
    assert sorted(stops[1:]) == ["server.0", "server.1"]


def test_a_dry_run_shows_each_run_without_secrets_and_contacts_no_host(cluster: DirectoryCluster) -> None:
    for node in cluster.nodes.values():
        node.probe_hangs()
        node.agent_hangs()
    program = 'trainer.program=["trainer.py", "{roles.server.endpoints}", "--password", "hunter2"]'
    job = start(cluster, "--dry-run", "--set", program)
    assert job.returncode == ExitCode.DONE, job.stderr
    assert "server.1: 1 rank on n2, http on a free port, here 29598\n" in job.stdout
    assert "trainer.py 127.0.0.1:29599,127.0.0.1:29598 --password '***'" in job.stdout
    assert "hunter2" not in job.stdout
    assert job.stderr.count("trainer: note: --password: every user of a node can read") == 1


def test_nodes_from_slurm_are_refused_with_the_way_to_an_inventory(cluster: DirectoryCluster) -> None:
    (cluster.inventory.parent / "job.toml").write_text(JOB.format(listen="0.0.0.0", timeout=1))
    job = cluster.run("start", "--scheduler", "slurm", str(cluster.inventory.parent / "job.toml"))
    assert job.returncode == ExitCode.USAGE
    assert "its nodes are those of an inventory, and here they are Slurm's" in job.stderr
    assert "--scheduler none -i cluster.ini" in job.stderr


def test_too_few_hosts_are_refused_before_any_is_contacted(cluster: DirectoryCluster) -> None:
    job = start(cluster, "--set", "trainer.nodes=2")
    assert job.returncode == ExitCode.USAGE
    assert "[roles.trainer] needs 2 of the hosts n[1-3]: replica 0 needs 2 and finds 1" in job.stderr


def test_the_tests_of_readiness_see_http_tcp_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def seen(by: str, target: str, path: str = "") -> tuple[bool, str]:
        on_node.print_readiness({"by": by, "target": target, "path": path}, "127.0.0.1", "7f3a9c01", 1e9)
        answer = json.loads(capsys.readouterr().out)
        return answer["ready"], answer["why"]

    assert TEST_EVERY_S > 0
    assert seen("file", str(tmp_path)) == (True, f"{tmp_path} exists")
    with socket.create_server(("127.0.0.1", 0)) as here, socket.create_server(("127.0.0.2", 0)) as elsewhere:
        port = here.getsockname()[1]
        assert seen("tcp", str(port)) == (True, f"127.0.0.1:{port} accepts connections")
        assert seen("tcp", str(elsewhere.getsockname()[1]))[0] is False
    assert seen("tcp", str(port)) == (False, f"127.0.0.1:{port}: connection refused")
