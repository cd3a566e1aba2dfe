"""An archive of a run has everything for a bug report, no secret, and works while a node is down."""

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended

ENDS_S = 300.0
"""Time for an archive on a busy machine: logs wait for the hosts."""

SECRETS = {
    "environment": "env-tr0ub4dor",
    "argv": "argv-h0rsebattery",
    "printed": "printed-st4ple99",
    "inventory": "inv-c0rrectkey",
    "controller": "here-w1relessly",
}
SCRIPT = """\
echo "rank $RANK uses $HF_TOKEN and $2"
echo "WANDB_API_KEY={printed}" >&2
echo "sudo: {inventory} is wrong; {controller}"
[ $RANK = 1 ] || {{ touch {directory}/up; exec sleep 600; }}
until [ -e {directory}/up ]; do sleep 0.02; done
exit 3
"""


@pytest.fixture
def cluster(directories: Callable[..., DirectoryCluster], monkeypatch: pytest.MonkeyPatch) -> DirectoryCluster:
    made = directories("n1", "n2")
    with made.inventory.open("a") as inventory:
        inventory.write(f"ansible_become_password={SECRETS['inventory']}\n")
    monkeypatch.setenv("HF_TOKEN", SECRETS["environment"])
    monkeypatch.setenv("REGISTRY_PASSWORD", SECRETS["controller"])
    return made


def failed_run(cluster: DirectoryCluster) -> str:
    directory = cluster.inventory.parent
    script = directory / "job"
    script.write_text(SCRIPT.format(directory=directory, **SECRETS))
    words = ("--secret", "HF_TOKEN", "--env", "NCCL_DEBUG=WARN", "--", "sh", str(script), "--api-key", SECRETS["argv"])
    process = cluster.start(*words)
    assert ended(process, ENDS_S).returncode == ExitCode.JOB_FAILED
    return next(iter(cluster.outcomes()))


def archived(cluster: DirectoryCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """`pylaunch report --archive` to its end."""
    return ended(cluster.begin("report", "--archive", *words), ENDS_S)


def content(archive: Path, run: str) -> dict[str, str]:
    """The files of an archive by name, without its directory, which every name must have."""
    with tarfile.open(archive) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar.getmembers() if entry.isfile()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert all(name.startswith(f"pylaunch-{run}/") for name in texts)
    return {name.split("/", 1)[1]: text for name, text in texts.items()}


def test_no_secret_is_in_an_archive_and_everything_else_is(cluster: DirectoryCluster, tmp_path: Path) -> None:
    run = failed_run(cluster)
    archive = tmp_path / "report.tar.gz"
    done = archived(cluster, run, "-o", str(archive), "--json")
    assert done.returncode == ExitCode.DONE, done.stderr
    document = documented(done.stdout, "pylaunch report")
    texts = content(archive, run)
    assert sorted(texts) == document["files"]
    assert [(name, secret) for name, text in texts.items() for secret in SECRETS.values() if secret in text] == []
    recorded = ("plan.json", "events.jsonl", "outcome.json", "essentials.json")
    assert {f"record/{run}/{name}" for name in recorded} <= set(texts)
    assert "rank 1 uses *" in texts["logs/n2/1.out"]
    assert "is wrong" in texts["logs/n1/0.out"]
    assert '"NCCL_DEBUG":"WARN"' in texts[f"record/{run}/plan.json"]
    assert "exited with code 3" in texts["README.txt"]


def test_a_node_that_is_down_is_named_and_an_archive_is_never_replaced(
    cluster: DirectoryCluster, tmp_path: Path
) -> None:
    run = failed_run(cluster)
    (cluster.nodes["n2"].path / "python3").rename(cluster.nodes["n2"].path / "gone")
    archive = tmp_path / "report.tar.gz"
    done = archived(cluster, "-i", str(cluster.inventory), "-o", str(archive))
    assert done.returncode == ExitCode.DONE, done.stderr
    assert done.stdout == f"{archive}\n"
    texts = content(archive, run)
    assert "logs/n1/0.out" in texts
    assert "logs/n2/1.out" not in texts
    missing = texts["README.txt"].split("Missing or cut")[1]
    assert "logs: n2: " in missing
    assert f"record/{run}/outcome.json" in texts

    before = archive.read_bytes()
    again = archived(cluster, run, "-o", str(archive))
    assert again.returncode == ExitCode.USAGE
    assert "exists already" in again.stderr
    assert archive.read_bytes() == before
