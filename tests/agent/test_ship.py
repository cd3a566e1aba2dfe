"""Code reaches a node once, is the same byte for byte, and what a run adds to it is never removed."""

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run import shipped_code
from pylaunch.base.layout import AgentError
from pylaunch.runs.sync import ship
from pylaunch.runs.sync.ship import NotShippedError, Shipped
from pylaunch.runs.sync.tree import Tree, read_tree
from pylaunch.transport.process import spawn
from tests.agent.controller import Node, task


@pytest.fixture
def work(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    (directory / "lib").mkdir(parents=True)
    (directory / "train.sh").write_text("#!/bin/sh\ncat lib/words; echo kept > out.txt\n")
    (directory / "train.sh").chmod(0o555)
    (directory / "lib/words").write_text("hello\n")
    (directory / "lib/same").write_text("hello\n")
    (directory / "a 'name'\n; true").write_text("")
    (directory / "link").symlink_to("lib/words")
    return directory


def shipped(node: Node, tree: Tree, run: str = "r1", *within: str) -> Shipped:
    async def once() -> Shipped:
        return await ship._ship(tree, await spawn((*within, *node.words("ship", "--run", run))))

    return asyncio.run(once())


def content(directory: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in directory.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(directory))] = path.readlink()
        elif path.is_file():
            found[str(path.relative_to(directory))] = (path.read_bytes(), path.stat().st_mode)
    return found


def test_a_tree_arrives_unchanged_and_the_second_time_only_its_changes(node: Node, work: Path) -> None:
    (work / ("n" * 255)).write_text("hello\n")  # The longest name.
    first = shipped(node, read_tree(work))
    (work / "train.sh").chmod(0o755)  # Owners may always write to their own copy.
    assert content(Path(first.path)) == content(work)
    assert (first.files, first.size) == (
        3,
        sum(path.stat().st_size for path in (work / "train.sh", work / "lib/words")),
    )
    (work / "lib/words").write_text("hello again\n")
    second = shipped(node, read_tree(work), "r2")
    assert (second.files, second.size) == (1, len("hello again\n"))
    assert content(Path(second.path)) == content(work)
    assert shipped(node, read_tree(work), "r3").files == 0


def test_a_run_starts_in_its_tree_and_may_write_there_without_harm_to_the_next(node: Node, work: Path) -> None:
    tree = read_tree(work)
    for run in ("r1", "r2"):
        where = Path(shipped(node, tree, run).path)
        script = "./train.sh; echo changed > lib/words"
        controller = node.ran(task(Path(protocol.TREE), script, run=run))
        assert controller.text("0.out") == "hello\n"
        assert (where / "out.txt").read_text() == "kept\n"


def test_every_attempt_of_a_run_finds_the_files_of_the_previous_one(node: Node, work: Path) -> None:
    tree = read_tree(work)
    reports = []
    for attempt in ("r1", "r1.1", "r1.2"):
        reports.append(shipped(node, tree, attempt))
        controller = node.ran(task(Path(protocol.TREE), "cat snapshot; echo $PYLAUNCH_RUN >> snapshot", run=attempt))
    assert controller.text("0.out") == "r1\nr1.1\n"
    assert {each.path for each in reports} == {str(node.root / "trees/r1")}
    assert [each.is_reused for each in reports] == [False, True, True]
    (work / "lib/words").write_text("other code\n")
    with pytest.raises(NotShippedError, match="run r1 has other code on this node"):
        shipped(node, read_tree(work), "r1.3")


def test_a_directory_that_a_rank_replaced_with_a_link_is_followed_neither_by_an_attempt_nor_by_pruning(
    node: Node, work: Path, tmp_path: Path
) -> None:
    tree = read_tree(work)
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "words").write_text("on another file system")
    where = Path(shipped(node, tree).path)
    shutil.rmtree(where / "lib")
    (where / "lib").symlink_to(shared)
    now = time.time_ns()
    os.utime(node.root / "trees/r1.json", ns=(now, now))
    shipped(node, tree, "r1.1")
    for number in range(2, shipped_code.KEPT_TREES + 3):
        shipped(node, tree, f"r{number}")
    assert (shared / "words").read_text() == "on another file system"


def test_a_file_that_changes_while_it_is_sent_is_named(node: Node, work: Path) -> None:
    tree = read_tree(work)
    (work / "lib/words").write_text("jello\n")
    (work / "lib/same").write_text("jello\n")
    with pytest.raises(NotShippedError, match=r"lib/(words|same) changed while it was being shipped"):
        shipped(node, tree)
    (work / "lib/words").write_text("short")
    (work / "lib/same").write_text("short")
    with pytest.raises(NotShippedError, match=r"lib/(words|same) changed while it was being shipped"):
        shipped(node, tree, "r2")
    assert not (node.root / "trees/r1").exists()


def test_damaged_content_on_the_node_is_not_used_and_sent_again(node: Node, work: Path) -> None:
    tree = read_tree(work)
    shipped(node, tree)
    digest = next(file.digest for file in tree.manifest.files if file.path == "lib/words")
    blob = node.root / "blobs" / digest[:2] / digest
    blob.chmod(0o600)
    blob.write_text("jello\n")
    with pytest.raises(NotShippedError, match="had been changed on this host"):
        shipped(node, tree, "r2")
    assert shipped(node, tree, "r3").files == 1


def test_code_that_could_not_be_kept_leaves_nothing_of_what_arrived(node: Node, work: Path) -> None:
    shipped(node, read_tree(work))
    kept = content(node.root / "blobs")
    (work / "large").write_bytes(bytes(1 << 20))
    with pytest.raises(NotShippedError, match="File too large"):
        shipped(node, read_tree(work), "r2", "prlimit", f"--fsize={1 << 19}")
    assert content(node.root / "blobs") == kept


def test_old_code_is_removed_and_files_that_runs_wrote_stay(node: Node, work: Path) -> None:
    for number in range(1, shipped_code.KEPT_TREES + 3):
        (work / "lib/words").write_text(f"version {number}\n")
        where = Path(shipped(node, read_tree(work), f"r{number}").path)
        if number == 1:
            (where / "out").mkdir()
            (where / "out/checkpoint").write_text("weights")
            (where / "lib/same").write_text("changed by the run")
            (where / "lib/__pycache__").mkdir()
            (where / "lib/__pycache__/a.pyc").write_text("")
    left = sorted(path.name for path in (node.root / "trees").iterdir() if path.is_dir())
    assert left == ["r1", *(f"r{number}" for number in range(3, shipped_code.KEPT_TREES + 3))]
    assert set(content(node.root / "trees/r1")) == {"out/checkpoint", "lib/same"}
    blobs = [path for path in (node.root / "blobs").rglob("*") if path.is_file() and path.name != "lock"]
    assert len(blobs) == 3 + shipped_code.KEPT_TREES


def test_the_tree_of_a_live_run_stays(node: Node, work: Path) -> None:
    tree = read_tree(work)
    controller = node.open("r1")
    controller.until(protocol.Hello)
    shipped(node, tree, "r1")
    for number in range(2, shipped_code.KEPT_TREES + 3):
        shipped(node, tree, f"r{number}")
    assert (node.root / "trees/r1/train.sh").exists()
    controller.send(protocol.Prepare(task(Path(protocol.TREE), "./train.sh")))
    assert isinstance(controller.until(protocol.Ready, protocol.Refused), protocol.Ready)


@pytest.mark.parametrize(
    "files",
    [
        [["/etc/passwd", 420, 0, "0" * 64]],
        [["../out", 420, 0, "0" * 64]],
        [["a/../../out", 420, 0, "0" * 64]],
        [["link/inside", 420, 0, "0" * 64]],
        [["a", 420, 0, "../../x"]],
        [["a", 420, 0, "0" * 64], ["a", 420, 0, "0" * 64]],
        [["a/" * 1_000_000 + "b", 420, 0, "0" * 64]],
    ],
)
def test_a_manifest_that_leads_out_of_its_tree_is_refused(node: Node, files: list[object]) -> None:
    body = json.dumps({"files": files, "links": [["link", "/etc"]]})
    with pytest.raises(AgentError):
        shipped_code.decoded(body.encode())


@pytest.mark.parametrize("program", [("sleep", "600"), ("sh", "-c", "cat > /dev/null; exec sleep 600")])
def test_a_node_that_takes_or_answers_nothing_is_given_up(
    program: tuple[str, ...], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "SILENT_S", 0.2)

    async def once() -> Shipped:
        async with asyncio.timeout(60):
            return await ship._ship(read_tree(work), await spawn(program))

    with pytest.raises(NotShippedError, match=r"took no more of the code for 0\.2 s"):
        asyncio.run(once())
