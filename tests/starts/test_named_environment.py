"""The Python environment that pylaunch.toml names: which one a start uses, what is missing, what a project may say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.agent.shared.installed import MARKER
from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster

LOCKS = """\
import fcntl
try:
    fcntl.flock(open("{marker}"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except BlockingIOError:
    print("in use")
"""
"""A program that does what the role python_env does before it removes an environment."""


def test_a_start_uses_the_environment_of_its_project_and_names_the_command_that_installs_it(
    directories: Callable[..., DirectoryCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pylaunch.toml").write_text('[env]\nname = "vision"\n')
    (tmp_path / "train.py").write_text(LOCKS.format(marker=tmp_path / "env/named/vision" / MARKER))
    cluster = directories("n1", "n2")
    named, start = f"-i {cluster.inventory}", ("start", "-i", str(cluster.inventory), "--", "train.py")
    missing = cluster.run(*start, code=ExitCode.CLUSTER_NOT_READY)
    assert "n[1-2]: /opt/pylaunch/named/vision/bin/python does not exist" in missing.stderr
    assert "--python names another interpreter" in missing.stderr
    first, then = f"pylaunch env lock {named} requirements.txt", f"pylaunch provision {named} --roles python_env"
    assert f"environment vision is installed by: {first} && {then}\n" in missing.stderr
    checked = cluster.run("check", "-i", str(cluster.inventory), "--only", "python_env.python", "--", "train.py")
    assert "no interpreter for the ranks at /opt/pylaunch/named/vision/bin/python" in checked.stdout + checked.stderr

    python = tmp_path / "env" / "named" / "vision" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/usr/bin/python3")
    (tmp_path / "env/named/vision" / MARKER).write_text("{}")
    with cluster.inventory.open("a") as inventory:
        inventory.write(f"pylaunch_env_root={tmp_path}/env\n")
    started = cluster.run(*start, code=ExitCode.DONE)
    assert "2 ranks on n[1-2] (direct, environment vision)" in started.stderr
    assert started.stdout.count("| in use") == 2
    other = cluster.run("start", "-i", str(cluster.inventory), "--python", "/usr/bin/python3", "--", "train.py")
    assert "environment vision" not in other.stderr
    assert other.stdout.count("| free") >= 1
