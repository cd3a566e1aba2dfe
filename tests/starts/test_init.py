"""`pylaunch init` on directories, and a start with the inventory that it writes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

N3 = "n3 ansible_connection=ssh ansible_port=9 ansible_user=nobody\n"


class Newcomer:
    """Somebody in an empty directory who has the inventory of another tool."""

    def __init__(self, cluster: DirectoryCluster, directory: Path) -> None:
        self.directory = directory
        self.inventory = directory / "cluster.ini"
        self._cluster = cluster

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "XDG_STATE_HOME": str(self._cluster.state)}
        return ended(
            subprocess.Popen(
                [sys.executable, "-m", "pylaunch", *words], cwd=self.directory, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip

    def init(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`pylaunch init` from the inventory of the other tool."""
        source = str(self._cluster.inventory)
        return self.types("init", "--from-inventory", source, "--python", "/usr/bin/python3", *words)


@pytest.fixture
def newcomer(directories: Callable[..., DirectoryCluster], tmp_path: Path) -> Newcomer:
    project = tmp_path / "project"
    project.mkdir()
    return Newcomer(directories("n1", "n2"), project)


def test_what_init_writes_is_an_inventory_that_starts(newcomer: Newcomer) -> None:
    written = newcomer.init()
    assert written.returncode == ExitCode.DONE, written.stderr
    assert "wrote cluster.ini: n[1-2]" in written.stderr
    assert "checks on 2 hosts" in written.stderr
    assert "hint: pylaunch start -- hostname" in written.stderr
    text = newcomer.inventory.read_text()
    assert "\npylaunch_python=/usr/bin/python3\n" in text
    assert "\n# gpus: n[1-2]: " in text
    assert not (newcomer.directory / "pylaunch.toml").exists()

    (newcomer.directory / "train.py").write_text("import os\nprint('rank', os.environ['RANK'])\n")
    started = newcomer.types("start", "--sync", ".", "--no-check", "--", "train.py")
    assert started.returncode == ExitCode.DONE, started.stderr
    assert sorted(line.split("| ")[1] for line in started.stdout.splitlines()) == ["rank 0", "rank 1"]


def test_nothing_is_replaced_and_all_errors_are_reported_at_once(newcomer: Newcomer) -> None:
    newcomer.inventory.write_text("mine\n")
    refused = newcomer.init("gpu[01-", "n1:99999")
    assert refused.returncode == ExitCode.USAGE
    assert "error: 3 errors, and no host was contacted" in refused.stderr
    for each in ("unbalanced bracket", "a port from 1 to 65535", "cluster.ini exists already"):
        assert each in refused.stderr
    assert newcomer.inventory.read_text() == "mine\n"


def test_hosts_that_fail_are_named_and_nothing_is_written_unless_asked(newcomer: Newcomer) -> None:
    source = newcomer.directory.with_name("cluster.ini")
    source.write_text(source.read_text().replace("\n\n", f"\n{N3}\n", 1))
    refused = newcomer.init()
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY, refused.stderr
    assert "error: 1 of 3 hosts could not be examined, so nothing was written" in refused.stderr
    assert "n3: " in refused.stderr
    assert not newcomer.inventory.exists()

    partial = newcomer.init("--partial", "-o", "some.ini")
    assert partial.returncode == ExitCode.DONE, partial.stderr
    assert "warning: 1 of 3 hosts could not be examined" in partial.stderr
    lines = (newcomer.directory / "some.ini").read_text().splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("n", "#n"))] == ["n1", "n2", "#n3"]
    assert (newcomer.directory / "pylaunch.toml").read_text().endswith('inventory = "some.ini"\n')
