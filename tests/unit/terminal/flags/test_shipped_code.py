"""Modules that a script imports from its tree and that nobody ships."""

from pathlib import Path

import pytest

from pylaunch.model.job import TREE
from pylaunch.runs.sync.tree import read_tree
from pylaunch.terminal.flags.shipped_code import modules_not_shipped

FILES = {
    ".gitignore": "data/\nsecret.py\n",
    "train.py": "import torch\nimport secret\nfrom library import model\nfrom data import loader\n",
    "library/__init__.py": "",
    "library/model.py": "from . import layers\nfrom ..data import deep\n",
    "library/layers.py": "import os, data.deep\n",
    "data/__init__.py": "",
    "data/loader.py": "",
    "data/deep.py": "",
    "data/unused.py": "",
    "secret.py": "",
    "src/main.py": "import secret\nfrom near import thing\n",
    "src/near/thing.py": "",
    "whole.py": "import json\n",
    "broken.py": "def (:\n",
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("workdir", "script", "lacking"),
    [
        (TREE, "train.py", ("data/__init__.py", "data/deep.py", "data/loader.py", "secret.py")),
        (TREE, "src/main.py", ("secret.py",)),
        (f"{TREE}/src", "main.py", ()),
        (TREE, "whole.py", ()),
        (TREE, "broken.py", ()),
        (TREE, "/opt/elsewhere.py", ()),
        (TREE, "bash", ()),
    ],
)
def test_modules_that_are_left_out_are_named_through_all_imports(
    directory: Path, workdir: str, script: str, lacking: tuple[str, ...]
) -> None:
    assert modules_not_shipped(read_tree(directory), workdir, script) == lacking


def test_included_modules_are_not_missing(directory: Path) -> None:
    tree = read_tree(directory, includes=("secret.py", "data/"))
    assert modules_not_shipped(tree, TREE, "train.py") == ()
