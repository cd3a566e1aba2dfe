"""A cluster of directories: nodes that are this machine's processes, each with the agent in a root of its own.

What asks a node (the probe) can be made to hang or to find too little, by files in the node's directory.
"""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pylaunch.agent.shared import processes
from pylaunch.inventory import load
from pylaunch.runs.prepare import launch
from tests.documents import hints_must_be_accepted

ENDS_S = 300.0
"""Far more than anything here takes, also on a busy machine."""

_SOMEWHERE = "/where/directories/are/nodes"
_PYTHON = """\
#!/bin/sh
here={directory}
if [ -e "$here/stops" ]; then
  setsid sleep 600 &  # as a shared connection does that was put into the background, it keeps the pipes
  echo $! >> "$here/staying"; echo $$ >> "$here/staying"; touch "$here/hanging"; kill -STOP $$
fi
case "$3" in *.pyz) if [ -e "$here/agent-hangs" ]; then echo $$ > "$here/hanging"; exec sleep 600; fi;; esac
if [ "$3" = "-" ]; then
  if [ -e "$here/hangs" ]; then echo $$ > "$here/hanging"; exec sleep 600; fi
  if [ -e "$here/few-files" ]; then ulimit -n 64; fi
fi
exec /usr/bin/python3 "$@"
"""


@dataclass(frozen=True)
class Directory:
    """One node."""

    path: Path

    def probe_hangs(self) -> None:
        """From now on."""
        (self.path / "hangs").touch()

    def agent_hangs(self) -> None:
        """Whoever calls it waits for its first word."""
        (self.path / "agent-hangs").touch()

    def stops(self) -> None:
        """Stop each new process there at once (SIGSTOP), with a child that keeps its pipes."""
        (self.path / "stops").touch()

    def goes_on(self) -> None:
        """Stop no further process there."""
        (self.path / "stops").unlink()

    def agents(self) -> list[int]:
        """The process ids of the agents of its live runs; a child that is about to become a rank is none."""
        locks = {str(path) for path in self.path.glob("root/runs/*/agent.lock")}
        holders = [each for each in processes.mine() if locks.intersection(processes.open_files(each.pid) or ())]
        pids = {each.pid for each in holders}
        return [each.pid for each in holders if each.parent not in pids]

    def has_few_files(self) -> Path:
        """The path of the file whose existence lets a check fail here: ranks may open too few files."""
        return self.path / "few-files"

    def hanging(self) -> int | None:
        """The process id of a probe that hangs."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((self.path / "hanging").read_text())
        return None


@dataclass(frozen=True)
class CommandLine:
    """`pylaunch` with records of its own."""

    inventory: Path
    state: Path

    def begin(self, *words: str, stdout: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[str]:
        """`pylaunch` with these words."""
        return subprocess.Popen(
            [sys.executable, "-m", "pylaunch", *words],
            env={**os.environ, "XDG_STATE_HOME": str(self.state)},
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def start(self, *words: str, stdout: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[str]:
        """`pylaunch start`, with any program as the job."""
        job = ("--framework", "command", "--workdir", "/", *words)
        return self.begin("start", "-i", str(self.inventory), *job, stdout=stdout)

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """Outcomes of the recorded runs by id; {} for a run without one."""
        found = {}
        for plan in sorted((self.state / "pylaunch" / "runs").glob("*/plan.json")):
            outcome = plan.with_name("outcome.json")
            found[plan.parent.name] = json.loads(outcome.read_text()) if outcome.exists() else {}
        return found

    def run(self, *words: str, code: int | None = None) -> subprocess.CompletedProcess[str]:
        """`pylaunch` to its end, which must be with `code`, if given."""
        return ended(self.begin(*words), code=code)


@dataclass(frozen=True)
class DirectoryCluster(CommandLine):
    """Nodes by name, and the command line."""

    nodes: dict[str, Directory]


def made_of_directories(directory: Path, names: Sequence[str]) -> DirectoryCluster:
    """A cluster in `directory`, whose nodes carry the agent already, and whose inventory Ansible has read."""
    cluster = DirectoryCluster(
        directory / "cluster.ini", directory / "state", {name: Directory(directory / name) for name in names}
    )
    for node in cluster.nodes.values():
        agents = node.path / "root" / "agents"
        agents.mkdir(mode=0o700, parents=True)
        (node.path / "root").chmod(0o700)
        for name, data in _agent().items():
            (agents / name).write_bytes(data)
        python = node.path / "python3"
        python.write_text(_PYTHON.format(directory=node.path))
        python.chmod(0o755)
    cluster.inventory.write_text(_inventory(str(directory), names))
    key = load.cache_key(cluster.inventory, Path.cwd(), os.environ)
    if key is not None:
        load.keep_answer(key, _answer_of_ansible(tuple(names)).replace(_SOMEWHERE, str(directory)))
    return cluster


def _inventory(directory: str, names: Sequence[str]) -> str:
    lines = [
        f"{name} pylaunch_node_root={directory}/{name}/root pylaunch_agent_python={directory}/{name}/python3"
        for name in names
    ]
    common = "ansible_connection=local\nansible_host=127.0.0.1\ninterface=lo\n"
    return "[cluster]\n" + "\n".join(lines) + "\n\n[cluster:vars]\n" + common


@functools.cache
def _answer_of_ansible(names: tuple[str, ...]) -> str:
    """The answer of ansible-inventory for these nodes in a directory _SOMEWHERE. It takes as long as a start."""
    with tempfile.TemporaryDirectory() as place:
        inventory = Path(place, "cluster.ini")
        inventory.write_text(_inventory(_SOMEWHERE, names))
        program = Path(sys.executable).with_name("ansible-inventory")
        asked = subprocess.run([program, "-i", inventory, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return asked.stdout


@functools.cache
def _agent() -> dict[str, bytes]:
    """Files of the agent by name: the archive, and its modules as the Python of nodes compiles them at first."""
    agent = launch.build()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, f"{agent.version}.pyz")
        path.write_bytes(agent.data)
        subprocess.run(["/usr/bin/python3", "-I", "-S", path, "--version"], stdout=subprocess.DEVNULL, check=True)
        return {file.name: file.read_bytes() for file in Path(place).iterdir()}


def ended(
    process: subprocess.Popen[str], within_s: float = ENDS_S, *, code: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Wait for `process`; fail the test if it does not end in time, or prints a hint with a command that is refused,
    or ends with another code than `code`."""
    try:
        stdout, stderr = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[1]
        raise AssertionError(f"no end within {within_s:g} s; so far:\n{output}") from None
    hints_must_be_accepted(stderr)
    assert code is None or process.returncode == code, stderr
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def says(process: subprocess.Popen[str], text: str) -> None:
    """Read its stderr up to a line with `text`."""
    assert process.stderr is not None
    output = []
    for line in process.stderr:
        if text in line:
            return
        output.append(line)
    raise AssertionError(f"it ended and never printed {text!r}:\n{''.join(output)}")


@contextlib.contextmanager
def no_process_stays(cluster: DirectoryCluster) -> Iterator[None]:
    """After the body, whatever still hangs there is ended."""
    try:
        yield
    finally:
        for node in cluster.nodes.values():
            staying = node.path / "staying"
            for pid in [node.hanging(), *map(int, staying.read_text().split() if staying.exists() else ())]:
                if pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def appears(path: Path, within_s: float = ENDS_S) -> None:
    """Wait until `path` is there."""
    until = time.monotonic() + within_s
    while not path.exists():
        assert time.monotonic() < until, f"not within {within_s:g} s: {path}"
        time.sleep(0.02)


def gone(pid: int, within_s: float = ENDS_S) -> None:
    """Wait until `pid` has ended."""
    until = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} is there after {within_s:g} s"
        time.sleep(0.02)


def killed_agent(node: Directory, left: int = 0) -> None:
    """Kill the agent, with which the kernel ends its ranks; all its children but `left` are gone then."""
    (agent,) = node.agents()
    ranks = [each.pid for each in processes.mine() if each.parent == agent and each.pid != left]
    os.kill(agent, signal.SIGKILL)
    for pid in (agent, *ranks):
        gone(pid)


def killed_controller(cluster: DirectoryCluster) -> None:
    """Kill the controller of the only run."""
    (run,) = cluster.outcomes()
    controller = int((cluster.state / "pylaunch" / "runs" / run / "controller").read_text())
    os.kill(controller, signal.SIGKILL)
    gone(controller)
