"""A finding that `pylaunch check` calls FAIL refuses `pylaunch start`."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended, says


def environment(cluster: DirectoryCluster, node: str, numpy: str) -> None:
    """An environment of `node` with this numpy, as its distributions' records say."""
    current = cluster.nodes[node].path / "env" / "current"
    packages = current / "lib" / "python3.11" / "site-packages" / f"numpy-{numpy}.dist-info"
    packages.mkdir(parents=True)
    (packages / "RECORD").write_text("")
    (current / "bin").mkdir()
    (current / "bin" / "python").symlink_to("/usr/bin/python3")
    inventory = cluster.inventory.read_text()
    cluster.inventory.write_text(inventory.replace(f"{node} ", f"{node} pylaunch_env_root={current.parent} ", 1))


def test_a_start_refuses_the_libraries_that_check_calls_fail(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2", "n3")
    for node, numpy in (("n1", "2.1.0"), ("n2", "1.26.4"), ("n3", "2.1.0")):
        environment(cluster, node, numpy)
    script = tmp_path / "train.py"
    script.write_text("print('ran')\n")
    job = ("-i", str(cluster.inventory), "--framework", "direct", "--workdir", str(tmp_path))
    output = "FAIL  n2: numpy: 1.26.4, expected 2.1.0 as on n[1,3]  [python_env.libraries]"
    checked = cluster.run("check", *job, "--only", "python_env.libraries", "--", "train.py")
    assert checked.returncode == ExitCode.CLUSTER_NOT_READY
    assert output in checked.stdout
    started = cluster.run("start", *job, "--", "train.py")
    assert (started.returncode, started.stdout) == (ExitCode.CLUSTER_NOT_READY, "")
    assert output in started.stderr
    assert "--skip python_env.libraries" in started.stderr
    in_spite = cluster.run("start", *job, "--skip", "python_env.libraries", "--", "train.py", code=ExitCode.DONE)
    assert "warn  n2: environment digest: " in in_spite.stderr
    run = re.findall(r"\brun ([0-9a-f]{8})\b", in_spite.stderr)[0]
    cluster.run("rerun", run, code=ExitCode.DONE)


def test_a_wrong_working_directory_does_not_wait_in_the_queue(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster = directories("n1", "n2")
    cluster.inventory.write_text(cluster.inventory.read_text() + "devices=0\n")
    gates = [tmp_path / f"gate{rank}" for rank in range(2)]
    for gate in gates:
        os.mkfifo(gate)
    holder = cluster.start("--", "sh", "-c", f"cat {tmp_path}/gate$RANK")
    says(holder, "started in ")
    words = ("start", "-i", str(cluster.inventory), "--framework", "command", "--queue")
    wrong = cluster.run(*words, "--workdir", "/no/such/directory", "--", "true", code=ExitCode.CLUSTER_NOT_READY)
    assert "FAIL  n[1-2]: working directory /no/such/directory does not exist  [storage.writable]" in wrong.stderr
    assert "waiting for" not in wrong.stderr
    right = cluster.begin(*words, "--workdir", "/", "--", "true")
    says(right, "waiting for n[1-2]: device 0, run ")
    assert cluster.run("ps").stdout.split("\n")[1].split()[1] == "waiting"
    for gate in gates:
        gate.write_text("")
    assert ended(holder).returncode == ExitCode.DONE
    assert ended(right).returncode == ExitCode.DONE
