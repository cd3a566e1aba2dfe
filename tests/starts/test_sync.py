"""Code of a run that nodes pass on to each other; the nodes are directories, one of which may lie, hang or be full."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.runs.sync.exchange import LEAST_SAVED
from tests.documented_commands import ROOT
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories
from tests.waiting import wait_until

_PYTHON = """\
#!/bin/sh
cd {directory} || exit 1
if [ "$3" = "-c" ]; then
  if [ -e hangs ]; then echo $$ > pid; exec sleep 600; fi
  if [ -e liar.py ]; then exec /usr/bin/python3 liar.py; fi
  if [ -e full ]; then ulimit -f 1024; fi
fi
exec /usr/bin/python3 "$@"
"""

_LIAR = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
from pylaunch.agent.piped import pieces
sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
pieces.PieceNode._send = lambda self, peer, descriptor, offset, size: peer.sendall(bytes(size))
pieces.main({{root!r}})
"""


@pytest.fixture
def cluster(tmp_path: Path) -> DirectoryCluster:
    made = made_of_directories(tmp_path, ("n1", "n2", "n3"))
    for node in made.nodes.values():
        (node.path / "python3").write_text(_PYTHON.format(directory=node.path))
    return made


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with a file that is worth passing on, and a small one."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "weights").write_bytes(b"".join(os.urandom(1024) * 1024 for _ in range((LEAST_SAVED >> 20) + 2)))
    (work / "run.sh").write_text("#!/bin/sh\nsha256sum weights\n")
    (work / "run.sh").chmod(0o755)
    return work


def begin(cluster: DirectoryCluster, work: Path) -> subprocess.Popen[str]:
    words = ("start", "-i", str(cluster.inventory), "--framework", "command", "--sync", str(work), "--", "./run.sh")
    return cluster.begin(*words)


def started(cluster: DirectoryCluster, work: Path) -> str:
    """Start the project, whose ranks must all read the same content; return what is reported."""
    process = ended(begin(cluster, work), code=ExitCode.DONE)
    assert len(re.findall(r"[0-9a-f]{64}  weights", process.stdout)) == 3
    assert len(set(re.findall(r"[0-9a-f]{64}", process.stdout))) == 1
    return process.stderr


def forget(cluster: DirectoryCluster, *names: str) -> None:
    """Remove the content that hosts store."""
    for name in names:
        shutil.rmtree(cluster.nodes[name].path / "root/blobs")


def test_code_leaves_the_controller_once_and_changes_alone_travel(cluster: DirectoryCluster, work: Path) -> None:
    first = started(cluster, work)
    sent = re.search(r"code: this machine sent (\d+) MiB; the nodes lacked 102 MiB", first)
    assert sent is not None
    assert 34 <= int(sent[1]) < 68, first  # A slow piece is sent twice.
    assert first.count(": received 2 of 2 files (34 MiB)") == 3
    for node in cluster.nodes.values():
        stored = [path for path in (node.path / "root/blobs").rglob("*") if path.is_file() and path.name != "lock"]
        assert sorted(path.stat().st_mode & 0o777 for path in stored) == [0o400, 0o400]
        assert not list((node.path / "root/blobs").glob(".*"))
    (work / "run.sh").write_text("#!/bin/sh\nsha256sum  weights\n")
    second = started(cluster, work)
    assert second.count(": received 1 of 2 files (29 bytes)") == 3
    assert "code: this machine" not in second
    forget(cluster, "n3")
    assert "code: this machine sent 0 bytes; the nodes lacked 34 MiB" in started(cluster, work)


def test_a_node_that_lies_and_one_that_is_full_cost_the_others_nothing(cluster: DirectoryCluster, work: Path) -> None:
    started(cluster, work)
    forget(cluster, "n1", "n3")
    (cluster.nodes["n2"].path / "liar.py").write_text(_LIAR.format(root=str(cluster.nodes["n2"].path / "root")))
    (cluster.nodes["n3"].path / "full").touch()
    report = started(cluster, work)
    assert "note: n3: no code from other nodes, so this machine sends it: File too large" in report
    assert "; the nodes lacked 34 MiB" in report, "n3 got nothing from others"
    assert "warning: n2 sent wrong bytes, according to n" in report, report


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_disk_without_room_for_the_code_is_the_one_reason(cluster: DirectoryCluster, work: Path) -> None:
    started(cluster, work)
    (work / "run.sh").write_text("#!/bin/sh\nsha256sum   weights\n")
    root = cluster.nodes["n2"].path / "root"
    shutil.copytree(root, saved := root.parent / "saved")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,size=40m", "small", root], check=True)
    try:
        shutil.copytree(saved, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("blobs", "trees", "runs"))
        refused = ended(begin(cluster, work))
    finally:
        subprocess.run(["umount", "-l", root], check=True)
    assert refused.returncode == ExitCode.CLUSTER_NOT_READY
    _, _, reported = refused.stderr.partition("hosts cannot take part, so no rank was started\n")
    reason, _, hint = reported.partition("\n")
    assert re.fullmatch(rf"  n2: the code cannot be kept in {root}: No space left on device \(.*\)", reason)
    assert hint == f"\nhint: df -h {root}\n"


def test_a_start_after_one_that_was_killed_sends_what_is_still_missing(cluster: DirectoryCluster, work: Path) -> None:
    hanging = cluster.nodes["n3"].path / "hangs"
    hanging.touch()
    process = begin(cluster, work)

    def is_stored() -> bool:
        stored = [*(cluster.nodes[name].path.glob("root/blobs/??/*") for name in ("n1", "n2"))]
        return all(len(list(each)) == 2 for each in stored)

    wait_until(is_stored, "n1 and n2 have everything, although n3 hangs")
    process.kill()
    ended(process)
    os.kill(int(hanging.with_name("pid").read_text()), signal.SIGKILL)
    hanging.unlink()
    report = started(cluster, work)
    assert report.count(": received 0 of 2 files") == 2, report
    assert "n3: received 2 of 2 files (34 MiB)" in report
