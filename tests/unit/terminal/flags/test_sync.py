from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import TREE
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal.flags import sync


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("1")
    (tmp_path / "secret.env").write_text("1")
    return sync.given(str(tmp_path), ("*.env",))


@pytest.mark.parametrize(
    ("given", "where"), [(None, TREE), (".", TREE), ("src", f"{TREE}/src"), ("a/../src/", f"{TREE}/src")]
)
def test_the_working_directory_lies_in_the_tree(tree: Tree, given: str | None, where: str) -> None:
    assert sync.workdir(given, tree) == where


@pytest.mark.parametrize("given", ["/home/ml", "..", "src/../.."])
def test_a_working_directory_outside_of_the_tree_is_refused(tree: Tree, given: str) -> None:
    with pytest.raises(UsageError, match="expected a directory in"):
        sync.workdir(given, tree)


def test_a_script_must_be_among_the_files(tree: Tree) -> None:
    sync.check_script(tree, f"{TREE}/src", "train.py")
    sync.check_script(tree, TREE, "./src/train.py")
    sync.check_script(tree, TREE, "/usr/bin/env")
    with pytest.raises(UsageError) as left_out:
        sync.check_script(tree, TREE, "secret.env")
    assert "--sync-exclude leaves it out" in left_out.value.evidence[0]
    with pytest.raises(UsageError, match=r"train\.py is not among the files to ship"):
        sync.check_script(tree, TREE, "train.py")
    with pytest.raises(UsageError) as misspelt:
        sync.check_script(tree, TREE, "src/trainn.py")
    assert misspelt.value.hint == "did you mean src/train.py?"


def test_files_that_gitignore_excludes_are_reported_with_the_flag_that_ships_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in ((".gitignore", "*.bin\n.venv\n"), ("a.bin", "1" * 2048), ("my data.bin", "1" * 4096)):
        (tmp_path / name).write_text(content)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/pyvenv.cfg").touch()
    sync.given(str(tmp_path), ())
    assert capsys.readouterr().err == (
        "note: .gitignore leaves out a.bin, my data.bin; --sync-exclude '!a.bin' ships the first\n"
    )
    shipped = sync.given(str(tmp_path), ("!*.bin",))
    assert {file.path for file in shipped.manifest.files} == {".gitignore", "a.bin", "my data.bin"}
    assert capsys.readouterr().err == ""


def test_the_inventory_in_use_stays_here_and_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.ini").write_text("gpu01 ansible_become_password=1\n")
    (tmp_path / "pylaunch.toml").write_text('inventory = "cluster.ini"\n')
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/gpu01.yml").write_text("ansible_become_password: 1\n")
    (tmp_path / "train.py").write_text("1")
    tree = sync.given(".", ())
    assert [file.path for file in tree.manifest.files] == ["train.py"]
    assert "note: not shipped: cluster.ini, host_vars/, pylaunch.toml (" in capsys.readouterr().err
