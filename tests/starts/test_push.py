"""`pylaunch push` to hosts that are directories of this machine, one of which may lie, end, or have no room."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import ExitCode
from pylaunch.terminal.options import LEAST_RATE
from tests.json_pages import documented
from tests.starts.cluster import DirectoryCluster, ended, made_of_directories
from tests.waiting import wait_until

PIECE = 4 << 20
PIECES = 5

_PYTHON = """\
#!/bin/sh
cd {directory} || exit 1
echo $$ > pid
if [ -e liar.py ]; then exec /usr/bin/python3 liar.py; fi
if [ -e small ]; then ulimit -f 1024; fi
exec /usr/bin/python3 "$@"
"""

_LIAR = """\
import sys
script = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
modules, call = script.rstrip().rsplit(b"\\n", 1)
exec(modules)
from pylaunch.features.push.on_node import pieces
pieces.PieceNode._send = lambda self, peer, descriptor, offset, size: peer.sendall(bytes(size))
exec(call)
"""
"""The program of a push, which sends zeros to its peers."""


class PushCluster(DirectoryCluster):
    """Hosts whose login directories are directories of their own."""

    def push(self, *words: str) -> subprocess.Popen[str]:
        """`pylaunch push` as a process."""
        return self.begin("push", "-i", str(self.inventory), *words)

    def pushed(self, *words: str) -> dict[str, Any]:
        """The document of a push, as the page of the reference describes it."""
        process = ended(self.push("--json", *words))
        document = documented(process.stdout, "pylaunch push")
        assert process.returncode == document["exit_code"]
        return document

    def pieces_of(self, name: str) -> Path | None:
        """The directory in which a host collects pieces."""
        return next(self.nodes[name].path.glob(".pylaunch-push-*"), None)

    def bytes_of(self, name: str) -> int:
        """Bytes of pieces that are on the disk of a host."""
        found = self.pieces_of(name)
        return sum(file.stat().st_blocks * 512 for file in found.iterdir()) if found is not None else 0


@pytest.fixture
def cluster(tmp_path: Path) -> PushCluster:
    made = made_of_directories(tmp_path, ("n1", "n2", "n3"))
    for node in made.nodes.values():
        (node.path / "python3").write_text(_PYTHON.format(directory=node.path))
    return PushCluster(made.inventory, made.state, made.nodes)


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    """A file of PIECES pieces, each of them different."""
    file = tmp_path / "blob"
    file.write_bytes(b"".join(os.urandom(1024) * (PIECE // 1024) for _ in range(PIECES)))
    return file


def test_files_leave_the_controller_about_once_and_are_on_every_host_with_their_modes(
    cluster: PushCluster, blob: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/run.sh").write_text("#!/bin/sh\n")
    (tree / "sub/run.sh").chmod(0o755)
    (tree / "empty").touch()
    (tree / "link").symlink_to("sub/run.sh")
    (cluster.nodes["n2"].path / "data/tree").mkdir(parents=True)
    (cluster.nodes["n2"].path / "data/tree/other").write_text("stays")
    done = cluster.pushed(str(blob), str(tree), "data/")
    assert [host["refused"] for host in done["hosts"]] == [None] * 3
    assert sum(host["from_controller"] for host in done["hosts"]) < 2 * done["size"]  # A slow piece is sent twice.
    for node in cluster.nodes.values():
        assert (node.path / "data/blob").read_bytes() == blob.read_bytes()
        assert (node.path / "data/tree/sub/run.sh").stat().st_mode & 0o777 == 0o755
        assert (node.path / "data/tree/link").readlink() == Path("sub/run.sh")
        assert (node.path / "data/tree/empty").read_bytes() == b""
        assert not list((node.path / "data").glob(".*"))
    assert (cluster.nodes["n2"].path / "data/tree/other").read_text() == "stays"
    (tree / "empty").write_text("no more")
    again = cluster.pushed(str(blob), str(tree), "data/")
    assert sum(host["from_controller"] for host in again["hosts"]) < PIECE + 1024
    assert (cluster.nodes["n3"].path / "data/tree/empty").read_text() == "no more"


def test_a_host_that_sends_wrong_bytes_is_named_and_plants_nothing(cluster: PushCluster, blob: Path) -> None:
    (cluster.nodes["n2"].path / "liar.py").write_text(_LIAR)
    (cluster.nodes["n2"].path / "blob").write_bytes(blob.read_bytes())  # So the others fetch everything from it first.
    process = ended(cluster.push(str(blob), "blob"), code=ExitCode.DONE)
    assert "warning: n2 sent wrong bytes, according to n" in process.stderr
    for name in ("n1", "n3"):
        assert (cluster.nodes[name].path / "blob").read_bytes() == blob.read_bytes()


def test_after_ctrl_c_the_same_command_sends_the_rest(cluster: PushCluster, blob: Path) -> None:
    process = cluster.push("--limit-rate", "4MB", str(blob), "blob")
    wait_until(lambda: cluster.bytes_of("n1") >= PIECE, "n1 has a piece")
    process.send_signal(signal.SIGINT)
    interrupted = ended(process, code=ExitCode.INTERRUPTED)
    assert "the same command sends the rest" in interrupted.stderr
    assert "Task was destroyed" not in interrupted.stderr
    assert not (cluster.nodes["n1"].path / "blob").exists()
    done = cluster.pushed(str(blob), "blob")
    assert done["exit_code"] == ExitCode.DONE
    assert done["hosts"][0]["had"] >= PIECE
    assert all(host["from_controller"] <= PIECES * PIECE - host["had"] for host in done["hosts"])
    assert (cluster.nodes["n1"].path / "blob").read_bytes() == blob.read_bytes()
    assert cluster.pieces_of("n1") is None


def test_a_file_that_changes_while_it_is_pushed_is_an_error_with_its_name(cluster: PushCluster, blob: Path) -> None:
    process = cluster.push("--limit-rate", "8MB", str(blob), "blob")
    wait_until(lambda: cluster.pieces_of("n1") is not None, "n1 is ready")
    os.truncate(blob, 0)
    failed = ended(process, code=ExitCode.USAGE)
    assert "blob changed while it was being pushed" in failed.stderr


def test_a_host_that_ends_costs_the_others_nothing_and_is_an_error(cluster: PushCluster, blob: Path) -> None:
    process = cluster.push("--limit-rate", "4MB", str(blob), "blob")
    wait_until(lambda: cluster.bytes_of("n2") >= PIECE, "n2 has a piece")
    os.kill(int((cluster.nodes["n2"].path / "pid").read_text()), signal.SIGKILL)
    failed = ended(process, code=ExitCode.CLUSTER_NOT_READY)
    assert "n2: its program ended: killed by SIGKILL" in failed.stderr
    assert "n[1,3]: blob (20 MiB" in failed.stderr
    for name in ("n1", "n3"):
        assert (cluster.nodes[name].path / "blob").read_bytes() == blob.read_bytes()


def test_hosts_that_refuse_say_why_and_the_others_receive(cluster: PushCluster, blob: Path, tmp_path: Path) -> None:
    (cluster.nodes["n1"].path / "small").touch()
    (cluster.nodes["n2"].path / "blob").mkdir()
    failed = ended(cluster.push(str(blob), "blob"), code=ExitCode.CLUSTER_NOT_READY)
    assert "n1: File too large" in failed.stderr
    assert "n2: is a directory:" in failed.stderr
    assert "n3: blob (20 MiB" in failed.stderr
    assert "less than 64 KiB" in ended(cluster.push("--limit-rate", f"{LEAST_RATE - 1}", str(blob), "blob")).stderr
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "neither file, directory nor link" in ended(cluster.push(str(pipe), "blob")).stderr
