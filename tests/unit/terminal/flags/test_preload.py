"""--preload: the imports with which a script begins, and modules by name."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.terminal.flags.preload import chosen, leading_imports

USUAL = '''\
"""Train."""
from __future__ import annotations
import argparse
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, random_split
from transformers import *
EPOCHS = 3
if TYPE_CHECKING:
    from torch import Tensor
import numpy as np
def main(): import pandas
'''


@pytest.mark.parametrize(
    ("source", "local", "expected"),
    [
        (USUAL, (), ("torch", "torch.distributed", "torch.utils.data:DataLoader", "torch.utils.data:random_split",
                     "transformers", "numpy")),
        (USUAL, ("torch",), ()),
        (USUAL, ("transformers",), ("torch", "torch.distributed", "torch.utils.data:DataLoader",
                                    "torch.utils.data:random_split")),
        ("import torch\nimport models\nimport numpy", (), ("torch",)),
        ("import models, torch", (), ()),
        ("import torch\nfrom . import models\nimport numpy", (), ("torch",)),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch", (), ()),
        ("import os\nos.environ.setdefault('A', '1')\nimport torch", (), ()),
        ("import warnings\nwarnings.filterwarnings('ignore')\nimport torch", (), ()),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\nimport numpy", (), ()),
        ("if True:\n    import torch", (), ()),
        ("PATH = make()\nimport torch", (), ()),
        ("import numpy\n@register\ndef f(): pass\nimport torch", (), ("numpy",)),
        ("import lightning\nimport torch", (), ()),
        ("", (), ()),
    ],
)  # fmt: skip
def test_auto_takes_the_imports_before_anything_that_could_change_an_import(
    source: str, local: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert leading_imports(source, local) == expected


def test_auto_reads_the_script_and_knows_the_modules_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("import torch\nimport yaml\nimport numpy")
    words = ("code/train.py", "--lr", "3")
    assert chosen("auto", Framework.DIRECT, words, str(tmp_path)) == ("torch", "yaml", "numpy")
    (tmp_path / "code" / "yaml.py").write_text("")
    assert chosen("auto", Framework.DIRECT, words, str(tmp_path)) == ("torch",)
    assert chosen("auto", Framework.TORCHRUN, words, str(tmp_path)) == ()
    assert chosen("none", Framework.DIRECT, words, str(tmp_path)) == ()
    assert capsys.readouterr().err == ""
    (tmp_path / "code" / "train.py").write_text("print()\nimport torch")
    assert chosen("auto", Framework.DIRECT, words, str(tmp_path)) == ()
    assert "begins with more than imports" in capsys.readouterr().err
    assert chosen("auto", Framework.DIRECT, ("other.py",), str(tmp_path)) == ()
    assert "is not on this machine" in capsys.readouterr().err


def test_modules_are_named_for_ranks_that_agents_start() -> None:
    words = ("train.py",)
    assert chosen("torch, my.model,torch", Framework.JAX, words, "/nowhere") == ("torch", "my.model")
    with pytest.raises(UsageError, match=r"'torch;x' is no name of a module"):
        chosen("torch;x", Framework.DIRECT, words, "/nowhere")
    with pytest.raises(UsageError, match=r"'' is no name of a module"):
        chosen("torch,", Framework.DIRECT, words, "/nowhere")
    with pytest.raises(UsageError, match="does not start the ranks of --framework torchrun itself"):
        chosen("torch", Framework.TORCHRUN, words, "/nowhere")
