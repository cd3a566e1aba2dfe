"""The HTML report of real runs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.store.runs import user_and_host
from tests.starts.cluster import DirectoryCluster, ended

ENDS_S = 300.0
SECRETS = {
    "environment": "env-tr0ub4dor",
    "argv": "argv-h0rsebattery",
    "printed": "printed-st4ple99",
    "inventory": "inv-c0rrectkey",
    "controller": "here-w1relessly",
}
SCRIPT = """\
echo "rank $RANK of <b>$WORLD_SIZE</b> uses $HF_TOKEN and $2" >&2
echo "WANDB_API_KEY={printed}" >&2
echo "sudo: {inventory} is wrong; {controller}" >&2
[ $RANK = 1 ] || {{ touch {directory}/up; exec sleep 600; }}
until [ -e {directory}/up ]; do sleep 0.02; done
echo "ValueError: no shard 7" >&2
exit 3
"""


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    monkeypatch.setenv("HF_TOKEN", SECRETS["environment"])
    monkeypatch.setenv("REGISTRY_PASSWORD", SECRETS["controller"])
    made = directories("n1", "n2")
    with made.inventory.open("a") as inventory:
        inventory.write(f"ansible_become_password={SECRETS['inventory']}\n")
    (made.inventory.parent / "job").write_text(SCRIPT.format(directory=made.inventory.parent, **SECRETS))
    return made


def report(cluster: DirectoryCluster, file: Path) -> str:
    """Write the report of the newest run, and return it."""
    cluster.run("report", "-i", str(cluster.inventory), "-o", str(file), code=ExitCode.DONE)
    return file.read_text()


def test_the_report_of_a_failed_run_has_its_cause_and_no_secret(cluster: DirectoryCluster, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    job = ("--", "sh", str(cluster.inventory.parent / "job"), "--api-key", SECRETS["argv"])
    ended(cluster.start("--secret", "HF_TOKEN", *job), ENDS_S, code=ExitCode.JOB_FAILED)
    text = report(cluster, file)
    (run,) = cluster.outcomes()
    assert "rank 1 on n2 exited with code 3" in text
    assert "ValueError: no shard 7" in text
    assert "rank 0 of &lt;b&gt;2&lt;/b&gt; uses" in text
    assert re.search(rf"pylaunch explain .*{run}", text)
    assert "rank 1 failed at" in text
    assert "is wrong" in text
    assert [name for name, secret in SECRETS.items() if secret in text] == []
    assert file.stat().st_mode & 0o777 == 0o600

    again = cluster.run("report", "-i", str(cluster.inventory), "-o", str(file), code=ExitCode.USAGE)
    assert "exists already" in again.stderr


def test_a_refused_start_has_a_report_with_its_reasons(cluster: DirectoryCluster, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    refused = cluster.start("--python", "/nowhere/python", "--", "/nowhere/program")
    ended(refused, code=ExitCode.CLUSTER_NOT_READY)
    text = report(cluster, file)
    assert "refused" in text
    assert "/nowhere/program" in text
    assert f"started by {user_and_host()}" in text
