"""`--sync` ships the files that git counts to the working tree: tracked, or neither tracked nor ignored."""

import subprocess
from pathlib import Path

from pylaunch.runs.sync.tree import read_tree

IGNORED = {
    ".gitignore": "*.log\n!keep.log\n/build/\ndata/*\n!data/small/\n\\#odd\n**/cache/**\nnotes/[a-c].txt\n# no\n",
    "src/.gitignore": "local.py\n!debug.log\n/only_here\n",
    "src/deep/.gitignore": "*\n!.gitignore\n!kept.py\n",
}
FILES = (
    "train.py", "a.log", "keep.log", "build/x", "src/build/x", "data/big.bin", "data/small/s.csv", "#odd",
    "src/local.py", "src/debug.log", "src/other.log", "src/only_here", "src/deep/only_here",
    "src/deep/kept.py", "src/deep/gone.py",
    "x/cache/y/z", "notes/a.txt", "notes/d.txt", "name with blanks.py", "ünïcode.py", ".hidden", "cache",
)  # fmt: skip


def test_the_same_files_are_left_out_as_by_git(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name, patterns in IGNORED.items():
        (tmp_path / name).write_text(patterns)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    words = ["git", "-C", str(tmp_path), "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout.rstrip("\0").split("\0")
    assert sorted(file.path for file in read_tree(tmp_path).manifest.files) == sorted(listed)
    assert "train.py" in listed
    assert "build/x" not in listed
