"""The environment of ranks on real nodes: the variables of the run and nothing else, secrets without a trace."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.lab import Lab
from lab.nodes.node import LabNode
from lab.ssh import close_all
from pylaunch.errors import ExitCode
from pylaunch.inventory import load_cluster
from pylaunch.transport import process
from pylaunch.transport.connections import connector_of
from tests.lab.controller import Gate, must_be_clean, newest, starting

COMMAND = ("--workdir", "/tmp", "--framework", "command")
SECRET = "Tr0ub4dor-hunter2"
PLAIN = "plainly-visible"
"""A variable that is no secret: where it is found, the secret would be as well."""


def traces(lab: Lab, text: str, patterns: Path) -> list[str]:
    """Places that contain `text`: files of pylaunch on the controller and on nodes, command lines of processes."""
    patterns.write_text(text)
    directories = (lab.environment["XDG_STATE_HOME"], *(str(root) for root in Path("/tmp").glob("pylaunch-ssh-*")))
    found = subprocess.run(["grep", "-rlFf", patterns, *directories], capture_output=True, text=True, check=False)
    places = found.stdout.splitlines()
    for node in lab:
        words = ("grep", "-rlsF", "-f", "-", "/var/tmp", "/tmp", "/run", "/root")
        places += node.run(*words, stdin=text.encode(), check=False).stdout.splitlines()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                places.append(str(path))
        except OSError:
            continue
    return places


def test_a_secret_reaches_every_rank_and_leaves_no_trace(
    lab: Lab, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = tmp_path / "patterns"
    monkeypatch.setenv("HF_TOKEN", SECRET)
    given = (*COMMAND, "--secret", "HF_TOKEN", "--env", f"PLAIN={PLAIN}")
    script = f'echo "${{#HF_TOKEN}} bytes"; echo "token $HF_TOKEN" >&2; {gate.wait}; exit 7'
    with starting(lab, tmp_path, *given, "--", "sh", "-c", script) as started:
        started.says(f"| {len(SECRET)} bytes", times=3)
        assert any("plan.json" in place for place in traces(lab, PLAIN, patterns))
        written = traces(lab, SECRET, patterns)
        assert {Path(place).name for place in written} <= {"0.err", "1.err", "2.err"}, "what a rank itself writes"
        gate.open()
        assert started.ends() == ExitCode.JOB_FAILED
        assert SECRET not in started.stdout + started.stderr
        assert "*" * len(SECRET) in started.stderr
    assert sum(f"/{newest(lab)}/task.json" in place for place in traces(lab, PLAIN, patterns)) == 3
    assert traces(lab, SECRET, patterns) == []
    assert "token ****" in lab.pylaunch("logs", newest(lab)).stderr
    must_be_clean(lab)


POISON = "export POISON=1 PYTHONPATH=/nowhere PATH=/nowhere:$PATH BASH_ENV=/root/.poison LD_LIBRARY_PATH=/nowhere\n"
FOR_ALL = "POISON=2\nPYTHONSTARTUP=/root/.poison\nPYTHONHOME=/nowhere\nENV=/root/.poison\n"
FILES = (".bashrc", ".profile", ".bash_profile", ".zshenv", ".poison")


@contextlib.contextmanager
def poisoned(node: LabNode) -> Iterator[None]:
    """Every file from which a login takes variables or commands sets some that no rank must have."""
    kept = {name: node.run("cat", f"/root/{name}", check=False) for name in FILES}
    for_all = node.read("/etc/environment")
    try:
        for name in FILES:
            node.write(f"/root/{name}", POISON)
        node.write("/etc/environment", for_all + FOR_ALL)
        yield
    finally:
        node.write("/etc/environment", for_all)
        for name, before in kept.items():
            node.run("rm", f"/root/{name}")
            if before.ok:
                node.write(f"/root/{name}", before.stdout)


@pytest.fixture
def new_connections(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Own connections, not those that other stories left open: each login reads its files again."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        yield
        close_connections(lab)


def close_connections(lab: Lab) -> None:
    for node in lab:
        close_all(node.address, "root")


def test_what_a_login_would_set_does_not_reach_the_ranks(lab: Lab, new_connections: None) -> None:
    before = environment_of_rank_1(lab)
    close_connections(lab)
    with poisoned(lab["n2"]):
        cluster = load_cluster(lab.inventory)
        login = process.run(connector_of(cluster["n2"], cluster.known_hosts).argv(("env",)))
        assert {"POISON=1", "PYTHONHOME=/nowhere", "BASH_ENV=/root/.poison"} <= set(login.stdout.splitlines())
        assert environment_of_rank_1(lab) == before


def environment_of_rank_1(lab: Lab) -> list[str]:
    run = lab.pylaunch("start", "-i", str(lab.inventory), *COMMAND, "--", "env")
    assert run.returncode == ExitCode.DONE, run.stderr
    lines = [line for line in run.stdout.splitlines() if line.startswith("n2:1 ")]
    (marked,) = [line for line in lines if "PYLAUNCH_RUN=" in line]
    return sorted(line.replace(marked.rpartition("=")[2], "RUN") for line in lines)
