"""A `pylaunch start` that a story watches, interrupts or kills."""

import contextlib
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.lab import Lab
from lab.nodes.node import LabNode
from pylaunch.transport.process import Completed
from tests.waiting import DEADLINE_S, wait_until


class Started:
    """The controller as a process; its stdout and stderr go to files that can be read at any time."""

    def __init__(self, lab: Lab, directory: Path, arguments: tuple[str, ...]) -> None:
        nodes = ("--scheduler", "slurm") if lab.spec.addition == "slurm" else ("-i", str(lab.inventory))
        self._out, self._err = directory / "stdout", directory / "stderr"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                lab.command("start", *nodes, *arguments),
                env={**os.environ, **lab.environment},
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip

    @property
    def stdout(self) -> str:
        return self._out.read_text(errors="replace")  # The last character may be half written.

    @property
    def stderr(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def newest(self) -> str:
        """The last 64 KiB of stdout: all of it may be hundreds of MiB, too much to read again and again."""
        with self._out.open("rb") as out:
            out.seek(max(0, out.seek(0, os.SEEK_END) - (1 << 16)))
            return out.read().decode("utf-8", "replace")

    @property
    def run(self) -> str:
        """The id of its run, which it has printed already."""
        return next(line.split()[1].rstrip(":") for line in self.stderr.splitlines() if line.startswith("run "))

    def says(self, text: str, times: int = 1, deadline_s: float = DEADLINE_S) -> None:
        """Wait until `text` has been printed that many times."""
        wait_until(
            lambda: (self.stdout + self.stderr).count(text) >= times or self.process.poll() is not None,
            f"{text!r}",
            deadline_s,
        )
        assert (self.stdout + self.stderr).count(text) >= times, self.stderr

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ends(self, deadline_s: float = DEADLINE_S) -> int:
        """The exit code, once it has one."""
        return self.process.wait(deadline_s)


@contextlib.contextmanager
def starting(lab: Lab, directory: Path, *arguments: str) -> Iterator[Started]:
    """Start a job; whatever the story does, no controller stays behind."""
    started = Started(lab, directory, arguments)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()


class Gate:
    """A gate for ranks: a file of this story alone, so that leftovers of an earlier story do not open it."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._path = f"/tmp/gate-{uuid.uuid4().hex}"

    @property
    def wait(self) -> str:
        """The shell's words with which a rank waits."""
        return f"while [ ! -e {self._path} ]; do sleep 0.1; done"

    def open(self, *names: str) -> None:
        """Release the ranks on these nodes; without names, on all nodes."""
        for node in self._lab:
            if not names or node.name in names:
                node.run("touch", self._path)

    def remove(self) -> None:
        for node in self._lab:
            node.run("rm", "-f", self._path)


_LOOK = """
import glob, os
for path in glob.glob("/proc/[0-9]*"):
    try:
        env = open(path + "/environ", "rb").read()
        words = open(path + "/cmdline", "rb").read().split(b"\\0")
    except OSError:
        continue
    kind = "rank" if b"PYLAUNCH_RUN=" in env else "agent" if any(w.endswith(b".pyz") for w in words) else None
    if kind and int(path[6:]) != os.getpid():
        print(kind, path[6:], b" ".join(words).decode())
"""


def of_runs(node: LabNode) -> list[str]:
    """Processes on `node` that carry the mark of a run ("rank …") or are an agent ("agent …")."""
    return node.run("python3", "-c", _LOOK).stdout.splitlines()


def is_clean(lab: Lab) -> bool:
    """Neither a rank nor an agent is left on any node."""
    return not any(of_runs(node) for node in lab)


def must_be_clean(lab: Lab) -> None:
    """Return whether no rank is left; the agents have reported their end and exit in a moment."""
    ranks = [f"{node.name}: {found}" for node in lab for found in of_runs(node) if found.startswith("rank")]
    assert not ranks, ranks
    wait_until(lambda: is_clean(lab), "the agents are gone")


def listed(lab: Lab, *words: str) -> list[dict[str, Any]]:
    """The runs that `pylaunch ps` lists, the newest first."""
    return list(json.loads(lab.pylaunch("ps", "--json", *words).stdout)["runs"])


def newest(lab: Lab) -> str:
    """The id of the newest run, live or over."""
    return str(listed(lab, "--all")[0]["run"])


def events(lab: Lab) -> list[dict[str, Any]]:
    """Return the events in the record of the newest run."""
    runs = Path(lab.environment["XDG_STATE_HOME"]) / "pylaunch" / "runs"
    newest = max(runs.iterdir(), key=lambda path: (path / "plan.json").stat().st_mtime_ns)
    return [json.loads(line) for line in (newest / "events.jsonl").read_text().splitlines()]


def not_kept(verified: Completed) -> set[str]:
    """The promises that `pylaunch verify --json` found broken, as test[host]."""
    return {
        f"{each['specification'].partition('.')[2]}[{host['host']}]"
        for host in json.loads(verified.stdout)["hosts"]
        for each in host.get("specifications", ())
        if each["outcome"] in ("failed", "error")
    }
