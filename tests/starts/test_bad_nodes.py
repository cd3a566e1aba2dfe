"""Nodes on which another program answers in place of Python: each is named, and the others are asked all the same."""

import contextlib
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.starts.cluster import DirectoryCluster, ended, says
from tests.waiting import wait_until

ANSWERS = {
    "n2": "printf '{}\\n'",
    "n3": "printf '{bye}\\n'",
    "n4": "head -c 400000 /dev/zero | tr '\\0' '['; echo",
    "n5": "printf '{'; exec tr '\\0' 'x' < /dev/zero",
    "n6": 'printf \'{"type": "Hello", "readings": 5, "protocol": 1e999}\\n\'',
}


@pytest.fixture
def bad_nodes(directories: Callable[..., DirectoryCluster]) -> DirectoryCluster:
    """Nodes of which only n1 is as it should be."""
    cluster = directories("n1", *ANSWERS)
    for name, script in ANSWERS.items():
        (cluster.nodes[name].path / "python3").write_text(f"#!/bin/sh\n{script}\n")
    return cluster


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("check", "--only", "limits,network"), 3),
        (("gpus",), 3),
        (("ps",), 0),
        (("clean", "--dry-run"), 3),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_no_answer_of_a_node_breaks_a_verb(bad_nodes: DirectoryCluster, words: tuple[str, ...], code: int) -> None:
    run = bad_nodes.run(*words, "-i", str(bad_nodes.inventory))
    assert "Traceback" not in run.stderr
    assert run.returncode == code, run.stderr
    assert "n[2" in run.stdout + run.stderr or "n2" in run.stdout + run.stderr


def test_a_start_names_every_node_that_answers_nonsense(bad_nodes: DirectoryCluster) -> None:
    run = ended(bad_nodes.start("--", "true"), code=3)
    assert "5 of 6 hosts cannot take part, so no rank was started" in run.stderr
    assert "n5: the connection to its agent ended (killed by SIGKILL): it sent a line of more than 4 MiB" in run.stderr


@pytest.mark.parametrize("words", [("start", "--", "true"), ("check", "--only", "reach")], ids=lambda words: words[0])
def test_a_python_that_no_host_has_is_named_with_the_variable_that_has_it(
    directories: Callable[..., DirectoryCluster], words: tuple[str, ...]
) -> None:
    cluster = directories("n1", "n2")
    for node in cluster.nodes.values():
        (node.path / "python3").unlink()
    lines = cluster.inventory.read_text().replace("/n1/python3", "/typo").replace("/n2/python3", "/typo")
    cluster.inventory.write_text(lines)
    ended = cluster.run(words[0], "-i", str(cluster.inventory), *words[1:], code=3)
    shown = ended.stdout + ended.stderr
    assert f"n[1-2]: no Python at {cluster.inventory.parent}/typo" in shown
    assert "correct pylaunch_agent_python or ansible_python_interpreter of n[1-2] in the inventory" in shown


FLOODED = 256 << 20
"""Bytes that the node sends, unless it has to wait."""

FLOOD = f"""\
import json, os, sys, time
hello = dict(type="Hello", protocol={protocol.PROTOCOL}, version="", run="", host="n2", pid=1, uid=0, python="3.11",
             phase="new", time=time.time(), running=[])
print(json.dumps(hello), flush=True)
for serial in range(3):
    sys.stdin.readline()
    print(json.dumps(dict(type="Pong", serial=serial, time=time.time())), flush=True)
finished = dict(type="Finished", leftovers=["x" * 4000] * 256, checked=[], time=0.0)
line = json.dumps(finished).encode() + b"\\n"
with open(sys.argv[1], "w") as progress:
    for sent in range({FLOODED} // len(line)):
        os.write(1, line)
        progress.write("x" * (len(line) >> 10))
        progress.flush()
"""
"""An agent that sends valid messages without end once it is connected."""


def test_a_node_that_floods_does_not_fill_the_memory_of_the_controller(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2", "n3")
    progress, flood = tmp_path / "progress", tmp_path / "flood.py"
    flood.write_text(FLOOD)
    agent = f"*.pyz) exec {sys.executable} {flood} {progress};;"
    (cluster.nodes["n2"].path / "python3").write_text(
        f'#!/bin/sh\ncase "$3" in {agent} esac\nexec {sys.executable} "$@"\n'
    )
    # While n3 gets its agent, which then does not answer, nothing of n2 is handled.
    for archive in cluster.nodes["n3"].path.glob("root/agents/*.pyz"):
        archive.unlink()
    cluster.nodes["n3"].agent_hangs()
    start = cluster.start("--", "true")
    says(start, "installing the agent on n3")
    looks = [(time.monotonic(), -1)]
    peak_kib = [0]

    def has_waited() -> bool:
        peak_kib[0] = max(peak_kib[0], _peak_kib(start.pid))
        sent_kib = progress.stat().st_size if progress.exists() else -1
        if sent_kib != looks[0][1]:
            looks[0] = (time.monotonic(), sent_kib)
        return sent_kib >= 0 and time.monotonic() - looks[0][0] > 1.0

    wait_until(has_waited, "n2 sends no more")
    start.send_signal(signal.SIGINT)
    assert "rank was started" in ended(start).stderr
    assert looks[0][1] << 10 < FLOODED / 4, "the controller took all that it was sent"
    assert peak_kib[0] < 200 << 10


def _peak_kib(pid: int) -> int:
    """Return the peak memory of a process; 0 for one that has ended."""
    with contextlib.suppress(OSError):
        _, _, peak = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")
        return int(peak.split()[0]) if peak else 0
    return 0


ANSWERS_ONCE = f"""\
import json, sys, time
hello = dict(type="Hello", protocol={protocol.PROTOCOL}, version="", run="", host=sys.argv[1], pid=1, uid=0,
             python="3.11", phase="new", time=time.time(), running=[])
print(json.dumps(hello), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "Ping":
        print(json.dumps(dict(type="Pong", time=time.time())), flush=True)
    elif message["type"] == "Prepare" and sys.argv[2:]:
        reason = dict(code="disk", message=sys.argv[2], hint="")
        print(json.dumps(dict(type="Refused", reasons=[reason])), flush=True)
"""
"""An agent that refuses to take part with a reason, or never answers without one."""


def test_a_node_that_still_prepares_when_another_one_refuses_is_not_called_late(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2", "n3")
    script = tmp_path / "agent.py"
    script.write_text(ANSWERS_ONCE)
    for name, reason in (("n1", ""), ("n2", "'no room'")):
        agent = f"*.pyz) exec {sys.executable} {script} {name} {reason};;"
        (cluster.nodes[name].path / "python3").write_text(
            f'#!/bin/sh\ncase "$3" in {agent} esac\nexec {sys.executable} "$@"\n'
        )
    run = ended(cluster.start("--", "true"), code=3)
    assert "1 of 3 hosts cannot take part, so no rank was started\n  n2: no room\n" in run.stderr
    assert "not ready within" not in run.stderr
    assert "note: n1 had not answered when another host refused" in run.stderr
