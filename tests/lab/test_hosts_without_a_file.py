"""Hosts that no inventory names: with nothing but their addresses and a key that an agent holds."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.model.hostset import fold
from tests.lab.controller import must_be_clean


@pytest.fixture
def agent(lab: Lab, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a person whose ssh-agent has the lab's key."""
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    agent.stdout.readline()
    environment = {**os.environ, **lab.environment, "SSH_AUTH_SOCK": str(socket)}
    try:
        subprocess.run(["ssh-add", "-q", str(lab.spec.paths.key)], env=environment, check=True)
        yield environment
    finally:
        agent.terminate()
        agent.wait()


def test_init_writes_an_inventory_of_hosts_that_are_new(lab: Lab, agent: dict[str, str], tmp_path: Path) -> None:
    def pylaunch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            lab.command(*words), env=agent, cwd=tmp_path, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    addresses = [lab[name].address for name in ("n1", "n2", "n3")]
    (tmp_path / "hosts").write_text("".join(f"{address} slots=1\n" for address in addresses))
    asked = pylaunch("init", "--from-hostfile", "hosts")
    assert asked.returncode == ExitCode.USAGE
    assert asked.stdout.count("SHA256:") == 3
    assert "3 host keys to accept, and no terminal to ask on" in asked.stderr
    assert not (tmp_path / ".pylaunch").exists()

    written = pylaunch("init", "--from-hostfile", "hosts", "--yes")
    assert written.returncode == ExitCode.DONE, written.stderr
    text = (tmp_path / "cluster.ini").read_text()
    for name, address in zip(("n1", "n2", "n3"), addresses, strict=True):
        assert f"\n{name} ansible_host={address}\n" in text, text
    assert re.search(r"\n# interface: n\[1-3\]: all peers are reached over (\w+).*\ninterface=\1\n", text), text

    job = ("--framework", "command", "--workdir", "/", "--", "hostname")
    started = pylaunch("start", *job)
    assert started.returncode == ExitCode.DONE, started.stderr
    assert sorted(line.split("| ")[1] for line in started.stdout.splitlines()) == ["n1", "n2", "n3"]
    must_be_clean(lab)


def test_two_hosts_and_no_file(lab: Lab, agent: dict[str, str], tmp_path: Path) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    addresses = [lab[name].address for name in ("n1", "n2")]
    hosts = ("-H", fold(addresses))

    def pylaunch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            lab.command(*words), env=agent, cwd=directory, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    job = ("--framework", "command", "--workdir", "/", "--", "hostname")
    unknown = pylaunch("start", *hosts, *job)
    assert unknown.returncode == ExitCode.CLUSTER_NOT_READY
    assert f"hint: pylaunch trust -H '{hosts[1]}' --limit '{hosts[1]}'" in unknown.stderr

    trusted = pylaunch("trust", *hosts, "--yes")
    assert trusted.returncode == ExitCode.DONE, trusted.stderr
    assert (directory / ".pylaunch" / "known_hosts").exists()

    expected = [f"{address}:{rank} | n{rank + 1}" for rank, address in enumerate(addresses)]
    for named in (hosts, ("-i", ",".join(addresses) + ",")):
        started = pylaunch("start", *named, *job)
        assert started.returncode == ExitCode.DONE, started.stderr
        assert sorted(started.stdout.splitlines()) == expected
    must_be_clean(lab)

    written = pylaunch("init", *addresses, "--yes")
    assert written.returncode == ExitCode.DONE, written.stderr
    found = json.loads(pylaunch("gpus", "--json").stdout)
    assert [(each["host"], each["unreachable"]) for each in found["hosts"]] == [("n1", None), ("n2", None)]
