"""Contract of torchrun with a script: the default start of pylaunch gives ranks what torchrun gives them."""

import json
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from pylaunch.transport import process
from tests.ports import free_port
from tests.starts.cluster import ENDS_S, DirectoryCluster, ended, made_of_directories, no_process_stays

RANKS, ATTEMPTS = range(4), range(2)
LOOK = """
import glob, json, os, signal, sys, time
directory, rank, attempt = sys.argv[1], os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
old_umask = os.umask(0)
seen = {
    "environment": dict(os.environ),
    "arguments": sys.argv[2:],
    "script": sys.argv[0],
    "executable": sys.executable,
    "import path": sys.path[0],
    "flags": list(sys.flags),
    "directory": os.getcwd(),
    "umask": old_umask,
    "leads its session": os.getsid(0) == os.getpid(),
    "handlers": {each.name: str(signal.getsignal(each)) for each in sorted(signal.valid_signals())
                 if isinstance(each, signal.Signals)},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
}
os.umask(old_umask)
path = f"{directory}/{attempt}.{rank}"
with open(path + "~", "w") as file:
    json.dump(seen, file)
os.rename(path + "~", path)
until = time.monotonic() + 60
while len(glob.glob(f"{directory}/{attempt}.[0-3]")) < 4 and time.monotonic() < until:
    time.sleep(0.02)
sys.exit(attempt == "0")
"""
RAISES = """
import sys
from torch.distributed.elastic.multiprocessing.errors import record
sys.stderr = open("/dev/null", "w")
@record
def main():
    raise ValueError("loss is NaN")
main()
"""
DIFFERENT = {
    "TORCHELASTIC_RUN_ID": "each run has its own",
    "TORCHELASTIC_USE_AGENT_STORE": "only torchrun's agent hosts a store",
    "TORCHELASTIC_ERROR_FILE": "in the directory of the run",
    "PATH": "begins with the directory of the interpreter",
}
"""Variables of torchrun's ranks with another value in ours, and why."""

FURTHER = {
    "USER", "LOGNAME", "SHELL",
    "PYTHONPATH", "PYTHONUNBUFFERED",
    "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME",
}  # fmt: skip
"""Variables that pylaunch sets in addition, beside its own and those of torch's flight recorder."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DirectoryCluster]:
    """Two nodes, which are directories of this machine."""
    made = made_of_directories(tmp_path, ["n1", "n2"])
    with no_process_stays(made):
        yield made


def under_torchrun(python: Path, port: int, words: tuple[str, ...], directory: Path) -> None:
    """Run `words` on two nodes with two ranks each; static rendezvous, as pylaunch uses it."""
    env = {"PATH": os.environ["PATH"], "HOME": pwd.getpwuid(os.getuid()).pw_dir, "LANG": "C.UTF-8"}
    common = ("--nnodes=2", "--nproc-per-node=2", "--max-restarts=2", "--rdzv-id=plain")
    where = ("--master-addr=127.0.0.1", f"--master-port={port}", f"--log-dir={directory / 'logs'}")
    nodes = [
        subprocess.Popen(
            [str(python), "-m", "torch.distributed.run", *common, *where, f"--node-rank={number}", *words],
            env=env, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for number in (0, 1)
    ]  # fmt: skip
    for node in nodes:
        ended(node, ENDS_S, code=0)


def seen_in(directory: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the report of each rank by attempt and rank."""
    return {
        (attempt, rank): json.loads((directory / f"{attempt}.{rank}").read_text())
        for attempt in ATTEMPTS
        for rank in RANKS
    }


def test_a_script_sees_what_torchrun_would_show_it_in_every_attempt(
    tmp_path: Path, cluster: DirectoryCluster, torch_python: Path
) -> None:
    work, plain, ours = tmp_path / "work", tmp_path / "plain", tmp_path / "ours"
    for directory in (work, plain, ours):
        directory.mkdir()
    (work / "train.py").write_text(LOOK)
    port = free_port()
    under_torchrun(torch_python, port, ("train.py", str(plain), "--lr", "3"), work)
    words = ("--workdir", str(work), "--python", str(torch_python), "--port", str(port), "--nproc-per-node", "2")
    start = cluster.run(
        "start", "-i", str(cluster.inventory), *words, "--max-restarts", "2", "--", "train.py", str(ours), "--lr", "3"
    )
    assert start.returncode == ExitCode.DONE, start.stderr
    assert "(direct)" in start.stderr
    expected, found = seen_in(plain), seen_in(ours)
    for each in expected:
        theirs, own = expected[each].pop("environment"), found[each].pop("environment")
        assert found[each] == expected[each]
        assert theirs.keys() - own.keys() == set()
        assert {name for name in theirs if own[name] != theirs[name]} == set(DIFFERENT)
        further = {name for name in own.keys() - theirs.keys() if not name.startswith(("PYLAUNCH_", "TORCH_"))}
        assert further == FURTHER
        assert own["TORCHELASTIC_USE_AGENT_STORE"] == "False"
        expected[each], found[each] = theirs, own
    for seen in (expected, found):
        assert len({environment["TORCHELASTIC_RUN_ID"] for environment in seen.values()}) == 1


def test_the_exception_that_torch_elastic_records_is_the_cause(
    tmp_path: Path, cluster: DirectoryCluster, torch_python: Path
) -> None:
    """The rank writes the file that TORCHELASTIC_ERROR_FILE names, and nothing to stderr."""
    (tmp_path / "train.py").write_text(RAISES)
    words = ("--workdir", str(tmp_path), "--python", str(torch_python), "--nodes", "1", "--", "train.py")
    start = cluster.run("start", "-i", str(cluster.inventory), *words)
    assert start.returncode == ExitCode.JOB_FAILED, start.stderr
    line = RAISES.splitlines().index('    raise ValueError("loss is NaN")') + 1
    assert f"rank 0 on n1 exited with code 1: ValueError: loss is NaN (train.py:{line})" in start.stderr


ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from datetime import timedelta
sys.path.insert(0, sys.argv[1])
from pylaunch.agent.shared.sockets import ports
from torch.distributed import TCPStore
port, use_libuv = int(sys.argv[2]), sys.argv[3] == "True"
with ports.hold(port):
    store = TCPStore("127.0.0.1", port, 1, True, timeout=timedelta(seconds=60), use_libuv=use_libuv)
    store.set("key", "value")
    assert store.get("key") == b"value"
    try:
        ports.hold(port)
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("use_libuv", [True, False])
def test_the_store_listens_on_a_held_port_and_nobody_else_can(torch_python: Path, use_libuv: bool) -> None:
    words = (str(torch_python), "-c", SCRIPT, str(ROOT), str(free_port()), str(use_libuv))
    assert process.run(words, timeout_s=300).checked().stdout == "Address already in use\n"
