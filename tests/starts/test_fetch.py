"""`pylaunch fetch` on directories: what comes home, and what is kept."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.model.job import TREE
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended

BIG = 3 << 20
SCRIPT = f"""\
mkdir -p ckpt
echo shared > metrics.json
[ $RANK = 0 ] && head -c {BIG} /dev/zero > ckpt/rank0.pt || echo one > ckpt/rank1.pt
echo "of rank $RANK" > state
ln -sfn nowhere broken
ln -sfn . again
touch "$(printf 'ckpt/a\\nb.pt')"
exit ${{CODE:-0}}
"""


@pytest.fixture
def cluster(
    directories: Callable[..., DirectoryCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DirectoryCluster:
    """Nodes with a working directory each: the tree of the run."""
    made = directories("n1", "n2")
    (tmp_path / "job").mkdir()
    (tmp_path / "job/train.sh").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path / "job")
    return made


def start(cluster: DirectoryCluster, *words: str) -> str:
    words = ("-i", str(cluster.inventory), "--sync", ".", "--framework", "command", *words)
    done = ended(cluster.begin("start", *words, "--", "sh", "train.sh"))
    assert done.returncode in (ExitCode.DONE, ExitCode.JOB_FAILED), done.stderr
    return done.stderr


def test_files_come_home_once_and_nothing_here_is_replaced_unasked(cluster: DirectoryCluster, tmp_path: Path) -> None:
    start(cluster)
    (run,) = cluster.outcomes()
    to = tmp_path / "home"

    dry = cluster.run("fetch", run, "**", "--to", str(to), "--dry-run", code=ExitCode.DONE)
    assert "n1: ckpt/rank0.pt (3.0 MiB)\n" in dry.stdout
    assert "n1: metrics.json (7 bytes)\n" in dry.stdout
    assert "again" not in dry.stdout
    assert not to.exists()

    done = cluster.run("fetch", run, "ckpt/*", "metrics.json", "state", "--to", str(to), "--json", code=ExitCode.DONE)
    documented(done.stdout, "pylaunch fetch")
    found = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
    assert found == {
        "ckpt/rank0.pt": bytes(BIG), "ckpt/rank1.pt": b"one\n", r"n1/ckpt/a\nb.pt": b"",
        r"n2/ckpt/a\nb.pt": b"", "n1/metrics.json": b"shared\n",
        "n2/metrics.json": b"shared\n", "n1/state": b"of rank 0\n", "n2/state": b"of rank 1\n",
    }  # fmt: skip

    (to / "n1/metrics.json").write_text("mine")
    (to / "ckpt/rank0.pt").unlink()
    again = cluster.run("fetch", run, "ckpt/*", "metrics.json", "--to", str(to), code=ExitCode.DIFFERENT)
    assert "warning: n1: metrics.json: not replaced: another file is here" in again.stderr
    assert "1 file (3.0 MiB) fetched, 4 here already" in again.stderr
    assert (to / "n1/metrics.json").read_text() == "mine"


def test_a_node_that_is_down_and_a_file_that_cannot_be_written_cost_only_themselves(
    cluster: DirectoryCluster, tmp_path: Path
) -> None:
    start(cluster)
    (run,) = cluster.outcomes()
    (cluster.nodes["n2"].path / "python3").rename(tmp_path / "gone")
    to, outside = tmp_path / "home", tmp_path / "outside"
    to.mkdir()
    outside.mkdir()
    (to / "ckpt").symlink_to(outside)
    done = cluster.run("fetch", run, "ckpt/*", "state", "--to", str(to), code=ExitCode.CLUSTER_NOT_READY)
    assert "warning: n2: " in done.stderr
    assert "n1: ckpt/rank0.pt: not fetched: Not a directory" in done.stderr
    assert (to / "state").read_text() == "of rank 0\n"
    assert list(outside.iterdir()) == []


def test_patterns_that_match_nothing_or_lead_out_are_refused(cluster: DirectoryCluster) -> None:
    start(cluster)
    (run,) = cluster.outcomes()
    nothing = cluster.run("fetch", run, "*.safetensors", code=ExitCode.USAGE)
    assert f"no file matches *.safetensors in {TREE} on n[1-2]" in nothing.stderr
    assert cluster.run("fetch", run, "../../*").returncode == ExitCode.USAGE
