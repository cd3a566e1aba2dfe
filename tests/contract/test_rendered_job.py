"""Contract of bash with scripts of job files for sbatch, on a cluster of stubs: order, readiness, ends, quoting."""

import json
import socket
import sys
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.features.job import rendering
from pylaunch.model.cluster import Cluster, Host
from tests.contract.slurm_stub import ran

SERVE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a")
        self.wfile.write(b"b" * 100_000)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
TRAIN = """
import json, os, sys, urllib.request
answers = [urllib.request.urlopen(f"http://{each}/").status for each in sys.argv[1].split(",")]
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NOTE", "PYLAUNCH_ROLE")
roles = json.loads(os.environ["PYLAUNCH_ROLES"])
assert ",".join(roles["server"]["ports"]["http"]) == sys.argv[1] == os.environ["PYLAUNCH_ENDPOINTS_SERVER_HTTP"]
with open(f"rank{os.environ['RANK']}", "w") as file:
    json.dump([answers, sys.argv[2:], [os.environ[name] for name in names]], file)
"""
JOB = """
[roles.trainer]
program = ["train.py", "{roles.server.endpoints}", "it's $(x) \\"y\\"", "a*;b", ""]
nodes = 2
after = "server"
env = { NOTE = "{roles.server.address} `$HOME`" }

[roles.server]
program = "serve.py {ports.http}"
nodes = 1
replicas = 2
ports = ["http"]
ready = "http:http/health"
service = true
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "serve.py").write_text(SERVE)
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: cluster(0))
    return tmp_path


def cluster(devices: int) -> Cluster:
    return Cluster(
        tuple(
            Host(f"n{each}", f"10.0.0.{each}", devices=tuple(range(devices)), python=sys.executable)
            for each in range(1, 5)
        )
    )


def script(capsys: Captured, job: str, *words: str, options: tuple[str, ...] = ()) -> str:
    Path("job.toml").write_text(job)
    assert run(["render", "slurm", *options, "job.toml", *words]) == ExitCode.DONE, capsys.readouterr().err
    return capsys.readouterr().out


def shell_job(**roles: str) -> str:
    """Return a job of shell commands, one for each role, with further keys after the first line."""
    parts = (text.partition("\n") for text in roles.values())
    return "\n".join(
        f"[roles.{name}]\nprogram = ['sh', '-c', {json.dumps(first)}]\nnodes = 1\n{keys}"
        for name, (first, _, keys) in zip(roles, parts, strict=True)
    )


def test_users_start_when_servers_are_ready_and_servers_end_after_them(directory: Path, capsys: Captured) -> None:
    code, shown, signals = ran(script(capsys, JOB), directory, 4)
    assert code == 0, shown
    lines = [line.partition(" ")[2] for line in shown.splitlines()]
    assert [line.partition(";")[0] for line in lines if "starts" in line][2:] == ["trainer starts"]
    assert lines.index("server.1 is ready (http:http/health)") < lines.index(
        next(line for line in lines if line.startswith("trainer starts"))
    )
    assert lines[-1] == "job job: trainer done"
    assert sorted(signals) == ["server.0 TERM", "server.1 TERM"]
    assert not any("ConnectionResetError" in path.read_text() for path in directory.glob("job-*.server.?.out"))
    for rank in (0, 1):
        answers, arguments, variables = json.loads((directory / f"rank{rank}").read_text())
        assert (answers, arguments) == ([200, 200], ['it\'s $(x) "y"', "a*;b", ""])
        assert variables == [str(rank), "0", "2", "1", str(rank), "127.0.0.1 `$HOME`", "trainer"]


def test_a_server_that_is_never_ready_ends_the_job_with_its_name(directory: Path, capsys: Captured) -> None:
    text = script(capsys, JOB, "--set", "server.ready=tcp:1", "--set", "server.ready-timeout=1")
    code, shown, signals = ran(text, directory, 4)
    assert code == 1
    assert "server.0 was not ready (tcp:1) within 1 s" in shown.splitlines()[-1]
    assert "trainer starts" not in shown
    assert sorted(signals) == ["server.0 TERM", "server.1 TERM"]


@pytest.mark.parametrize(
    ("job", "code", "reason"),
    [
        ({"a": "echo the reason; exit 7", "b": "exec sleep 60"}, 7, "a failed with exit code 7"),
        ({"a": "exit 7\non-failure = 'continue'", "b": "exit 0"}, 0, "b done"),
        ({"a": "exit 7\non-failure = 'continue'"}, 1, "all of a failed"),
        ({"a": "exit 0\nservice = true", "b": "exec sleep 60"}, 1, "a ended, and it is a service"),
        (
            {"a": "exit 0\nready = 'file:/never'", "b": "exec sleep 60", "c": "exit 0\nafter = 'a'"},
            1,
            "c waits for a, which has ended",
        ),
        ({"c": "exit 0\nafter = 'a'", "a": "exit 0"}, 0, "c a done"),
        ({"a": "exec sleep 60\nservice = true", "batch": "exit 0"}, 0, "batch done"),
        ({"batch": "exec sleep 60\nservice = true", "a": "exit 0"}, 0, "a done"),
        ({"a": "trap '' TERM; : >up; sleep 60\nservice = true\ngrace = 1",
          "b": "until [ -e up ]; do sleep 0.05; done"}, 0, "b done"),
        ({"a": "echo all is up; exec sleep 60\nready = 'output:is up'\nservice = true", "b": "exit 0\nafter = 'a'"},
         0, "b done"),
        ({"a": ": >up; exec sleep 60\nready = 'file:{here}/up'\nservice = true", "b": "exit 0\nafter = 'a'"},
         0, "b done"),
    ],
)  # fmt: skip
def test_an_end_is_judged_as_the_job_file_says(
    job: dict[str, str], code: int, reason: str, directory: Path, capsys: Captured
) -> None:
    text = shell_job(**{name: each.replace("{here}", str(directory)) for name, each in job.items()})
    found, shown, signals = ran(script(capsys, text), directory, len(job))
    assert (found, shown.splitlines()[-1].partition(" ")[2]) == (code, f"job job: {reason}"), shown
    assert {path.read_text() for path in (directory / "steps").glob("*.name")} <= {".readiness\n"}
    assert ("a KILL" in signals) == ("trap" in job["a"])
    assert ("the reason" in shown) == ("the reason" in job["a"])


def test_a_signal_to_all_processes_of_the_job_ends_it(directory: Path, capsys: Captured) -> None:
    text = script(capsys, shell_job(a=": >up; exec sleep 60", b="exec sleep 60\nservice = true"))
    code, shown, _ = ran(text, directory, 2, terminate_at="up")
    assert code == 143
    assert shown.splitlines()[-1].partition(" ")[2] == "job job: stopped by a signal"


def test_a_requeued_job_does_not_read_the_output_of_the_one_before(directory: Path, capsys: Captured) -> None:
    (directory / "job-7.a.out").write_text("0: is up\n" * 100_000)
    job = shell_job(a="exec sleep 60\nready = 'output:is up'\nready-timeout = 1", b="exit 0\nafter = 'a'")
    code, shown, _ = ran(script(capsys, job), directory, 2, SLURM_JOB_ID="7")
    assert code == 1
    assert "a was not ready (output:is up) within 1 s" in shown.splitlines()[-1]


def test_a_port_that_is_in_use_starts_nothing(directory: Path, capsys: Captured) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        job = shell_job(a=f"exec sleep 60\nports = {{ p = {port} }}\nready = 'tcp:p'", b="exit 0\nafter = 'a'")
        code, shown, _ = ran(script(capsys, job), directory, 2)
    assert code == 1
    assert "a was not started: another process answers its readiness test (tcp:p)" in shown


def test_a_job_with_other_nodes_is_refused(directory: Path, capsys: Captured) -> None:
    code, shown, _ = ran(script(capsys, JOB), directory, 3)
    assert (code, shown) == (2, "error: the roles need 4 nodes, and the job has 3\n")


def test_roles_that_share_nodes_divide_the_devices_that_slurm_gave(
    directory: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "load_cluster", lambda inventory, limit: cluster(4))
    write = 'echo "$CUDA_VISIBLE_DEVICES" >"$PYLAUNCH_ROLE"\nshared = true\nnproc-per-node = {}'
    c = "\nhosts = 'role:a'\nenv = { CUDA_VISIBLE_DEVICES = '2,3' }"
    text = script(capsys, shell_job(a=write.format(1), b=write.format(2) + "\nhosts = 'role:a'", c=write.format(1) + c))
    assert "#SBATCH --nodes=1\n#SBATCH --exclusive\n#SBATCH --gres=gpu:4\n" in text
    assert ran(text, directory, 1, CUDA_VISIBLE_DEVICES="8,5,6,7")[0] == 0
    assert [(directory / name).read_text() for name in "abc"] == ["8\n", "5,6\n", "2,3\n"]


def test_a_secret_reaches_its_role_alone_and_no_file(
    directory: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hidden")
    show = 'echo "${HF_TOKEN-none}" >"$PYLAUNCH_ROLE"'
    text = script(capsys, shell_job(a=f"{show}\nsecret = ['HF_TOKEN']", b=show))
    assert "hidden" not in text
    assert ran(text, directory, 2, HF_TOKEN="from sbatch")[0] == 0
    assert [(directory / name).read_text() for name in "ab"] == ["from sbatch\n", "none\n"]
