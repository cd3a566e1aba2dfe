from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.launch.tree import Tree, read_tree
from pylaunch.model.manifest import Link


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def names(tree: Tree) -> list[str]:
    return [file.path for file in tree.manifest.files]


def test_a_tree_is_its_files_with_content_mode_and_links(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "print(1)", "lib/a.py": "a"})
    (tmp_path / "train.py").chmod(0o755)
    (tmp_path / "data").symlink_to("/mnt/data")
    (tmp_path / "empty").mkdir()
    manifest = read_tree(tmp_path).manifest
    assert names(read_tree(tmp_path)) == ["lib/a.py", "train.py"]
    assert manifest.files[1].mode == 0o755
    assert manifest.links == (Link("data", "/mnt/data"),)
    assert manifest.size == 9


def test_the_same_files_have_the_same_name_and_others_another(tmp_path: Path) -> None:
    for place in ("one", "two"):
        write(tmp_path / place, {"train.py": "print(1)"})
    first, second = read_tree(tmp_path / "one"), read_tree(tmp_path / "two")
    assert first.manifest.digest == second.manifest.digest
    (tmp_path / "two/train.py").chmod(0o755)
    assert read_tree(tmp_path / "two").manifest.digest != first.manifest.digest


def test_pylaunchignore_wins_over_gitignore_and_the_flag_over_both(tmp_path: Path) -> None:
    write(tmp_path, {"a_bin": "1", "b_bin": "2", "c.py": "3", ".gitignore": "*_bin\n", ".pylaunchignore": "!a_bin\n"})
    assert names(read_tree(tmp_path)) == [".gitignore", ".pylaunchignore", "a_bin", "c.py"]
    assert names(read_tree(tmp_path, (".*", "a_bin"))) == ["c.py"]


def test_what_nobody_ships_is_left_out(tmp_path: Path) -> None:
    never = (".git/config", "lib/__pycache__/a.pyc", ".pylaunch/known_hosts")
    write(tmp_path, {"train.py": "1", **dict.fromkeys(never, "x")})
    assert names(read_tree(tmp_path)) == ["train.py"]


def test_a_change_after_reading_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "1", "b.py": "1", "c.py": "1"})
    tree = read_tree(tmp_path)
    assert tree.changed() == []
    (tmp_path / "a.py").write_text("2")
    os.utime(tmp_path / "a.py", ns=(1, 1))
    (tmp_path / "c.py").unlink()
    assert tree.changed() == ["a.py", "c.py"]


def test_too_large_a_tree_is_refused_with_what_is_largest(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "1", "data/x": "x" * 3000})
    with pytest.raises(UsageError) as error:
        read_tree(tmp_path, limit=2000)
    assert error.value.evidence[0] == "data: 0.0 MiB"
    assert "--sync-limit" in str(error.value.hint)
    assert names(read_tree(tmp_path, ("data/",), limit=2000)) == ["train.py"]


def test_sockets_are_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"train.py": "1"})
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
    tree = read_tree(tmp_path)
    assert (names(tree), tree.left_out) == (["train.py"], ("s",))


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a directory"):
        read_tree(tmp_path / "nowhere")
