"""Contract with the system: streams that are closed, a low limit of open files, a kernel without pidfd."""

import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode

PYLAUNCH = Path(sys.executable).with_name("pylaunch")
LOG = "RuntimeError: CUDA error: out of memory\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_log_is_explained_without_a_stream(closed: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    command = ["sh", "-c", f'exec "$0" explain run.log {closed}', str(PYLAUNCH)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    shown = [text.partition(":")[0] for text in (ended.stdout, ended.stderr) if text]
    assert ended.returncode == 0
    assert shown == [
        text for text, stream in (("several causes", ">&-"), ("hint", "2>&-")) if stream not in closed.split()
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["run.log"]
    assert (tmp_path / "run.log").read_text() == LOG


def test_a_document_that_finds_no_room_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    with Path("/dev/full").open("wb") as full:
        command = [str(PYLAUNCH), "explain", "run.log", "--json"]
        ended = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert ended.returncode == ExitCode.USAGE
    assert ended.stderr.splitlines()[0] == "error: stdout: No space left on device"


_PROGRAM = """
import asyncio, resource, sys
from pylaunch.errors import ClusterNotReadyError
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.probe.ask import ask

HOSTS = 30
options = {"connection": Connection.LOCAL, "agent_python": "/bin/cat"}
cluster = Cluster(tuple(Host(f"n{number}", "127.0.0.1", **options) for number in range(HOSTS)))

async def connect():
    fleet = Fleet(plan_run(cluster, JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01"), "0123")
    try:
        return await fleet.connect(cluster.names, "open")
    finally:
        await fleet.close()

resource.setrlimit(resource.RLIMIT_NOFILE, (72, int(sys.argv[2])))
try:
    ends = ask(cluster, dict.fromkeys(cluster.names, b"")) if sys.argv[1] == "probe" else asyncio.run(connect())
    print(len(ends), "answers")
except ClusterNotReadyError as error:
    print(error.message)
"""


@pytest.mark.parametrize(
    ("verb", "hard", "printed"),
    [
        ("probe", 4096, "30 answers"),
        ("probe", 100, "30 answers"),
        ("start", 4096, "30 answers"),
        ("start", 100, "30 hosts need 364 open files, and this process may open 100"),
    ],
)
def test_a_low_limit_of_open_files_delays_questions_and_refuses_connections_that_stay(
    verb: str, hard: int, printed: str
) -> None:
    words = [sys.executable, "-c", _PROGRAM, verb, str(hard)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, printed), ended.stderr[-2000:]
