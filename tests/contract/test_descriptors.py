"""Contract with the kernel's limit of open files: processes for more hosts than the soft limit has room for."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("verb", ["probe", "start"])
@pytest.mark.parametrize(
    ("hard", "printed"), [(4096, "30 answers"), (100, "30 hosts need 364 open files, and this process may open 100")]
)
def test_the_soft_limit_is_raised_as_far_as_the_hosts_need_and_the_hard_one_is_named(
    verb: str, hard: int, printed: str
) -> None:
    words = [sys.executable, "-c", _PROGRAM, verb, str(hard)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, printed), ended.stderr[-2000:]
