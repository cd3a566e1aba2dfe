from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.manifest import SymbolicLink
from pylaunch.runs.sync.ship import NotShippedError
from pylaunch.runs.sync.tree import Tree, read_tree


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
    assert manifest.links == (SymbolicLink("data", "/mnt/data"),)
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


def test_a_pattern_to_include_reaches_into_ignored_directories_and_takes_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, {
        ".gitignore": "*.bin\ndata/\n", "w.bin": "1", "data/a/part": "1", "data/b": "1", ".git/w.bin": "1",
    })  # fmt: skip
    tree = read_tree(tmp_path, ("!data/a/", "!*.bin"))
    assert names(tree) == [".gitignore", "data/a/part", "w.bin"]
    assert tree.ignored == ("data/",)
    assert names(read_tree(tmp_path, ("!data/", "!*.bin", "w.bin"))) == [".gitignore", "data/a/part", "data/b"]


def test_files_that_are_never_shipped_are_omitted(tmp_path: Path) -> None:
    never = (".git/config", "lib/__pycache__/a.pyc", ".pylaunch/known_hosts")
    write(tmp_path, {"train.py": "1", **dict.fromkeys(never, "x")})
    assert names(read_tree(tmp_path)) == ["train.py"]


@pytest.mark.parametrize("pattern", ["[z-a]", "!"])
def test_an_ignore_file_with_a_line_that_is_no_pattern_is_refused_with_the_line(tmp_path: Path, pattern: str) -> None:
    (tmp_path / ".gitignore").write_text(f"*.pyc\n{pattern}\n")
    with pytest.raises(UsageError) as refused:
        read_tree(tmp_path)
    assert f".gitignore: line 2: '{pattern}' is no pattern" in refused.value.message


def test_the_inventory_settings_and_vault_files_are_never_shipped(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "train.py": "1",
            "cluster.ini": "gpu01 ansible_become_password=1",
            "group_vars/all.yml": "1",
            "pylaunch.toml": "",
            "conf/keys.yml": "$ANSIBLE_VAULT;1.1;AES256\n00",
        },
    )
    private = (tmp_path / "cluster.ini", tmp_path / "group_vars", tmp_path / "absent")
    tree = read_tree(tmp_path, ("!cluster.ini", "!*.yml"), private=private)
    assert names(tree) == ["train.py"]
    assert sorted(tree.withheld) == ["cluster.ini", "conf/keys.yml", "group_vars/", "pylaunch.toml"]


def test_a_full_directory_that_a_node_names_is_one_word_of_the_hint() -> None:
    assert NotShippedError("No space left on device", "/x; reboot").hint == "df -h '/x; reboot'"
