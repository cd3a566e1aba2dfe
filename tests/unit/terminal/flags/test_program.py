"""Program and framework of a command line."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.terminal.flags import start
from pylaunch.terminal.flags.start import StartFlags


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def understood(*words: str, **flags: Any) -> start.Program:
    return start.understood(StartFlags(words=words, **flags), None)[0]


@pytest.mark.parametrize(
    ("asked", "word", "framework"),
    [
        ("auto", "train.py", Framework.DIRECT),
        ("auto", "hostname", Framework.COMMAND),
        ("auto", "./run.sh", Framework.COMMAND),
        ("command", "train.py", Framework.COMMAND),
        ("command", "torchrun", Framework.COMMAND),
        ("jax", "train.py", Framework.JAX),
    ],
)
def test_a_program_without_a_source_here_goes_by_its_name(asked: str, word: str, framework: Framework) -> None:
    chosen = understood(word, "--lr", "3", framework=asked)
    assert chosen.framework is framework
    assert chosen.is_unread == (asked == "auto" and word == "train.py")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("source", "env.sh", "&&", "python", "t.py"), "pylaunch start -- bash -c 'source env.sh && python t.py'"),
        (("sbatch", "job.sh"), "pylaunch start --scheduler slurm --nodes 4 -- train.py; pylaunch help slurm"),
        (("nb.ipynb",), "jupyter nbconvert --to script nb.ipynb"),
        (("torchrun --nproc_per_node=2 train.py",), "pylaunch start -- torchrun --nproc_per_node=2 train.py"),
        (("python -c 'print(1)'", "a b"), "pylaunch start -- python -c 'print(1)' 'a b'"),
        (("cd x && python t.py",), "pylaunch start -- bash -c 'cd x && python t.py'"),
        (("python t.py " + "x" * 300,), "pylaunch start -- python t.py " + "x" * 300),
        (("pkg.train", "--lr", "3"), "pylaunch start -- -m pkg.train --lr 3"),
    ],
)
def test_words_that_are_no_program_are_refused_with_the_line_to_type(
    here: Path, words: tuple[str, ...], hint: str
) -> None:
    (here / "pkg").mkdir()
    (here / "pkg" / "train.py").touch()
    with pytest.raises(UsageError, match="and no program") as refused:
        understood(*words)
    assert refused.value.hint == hint


@pytest.mark.parametrize("words", [("hostname",), ("python", "train.py"), ("./run.sh", "A=2")])
def test_variables_before_any_program_are_those_of_its_ranks(words: tuple[str, ...]) -> None:
    chosen, flags = start.understood(StartFlags(words=("A=1", "B=", *words), env=("A=3",)), None)
    assert (chosen.words[-1], flags.env) == (words[-1], ("A=1", "B=", "A=3"))


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("from accelerate import Accelerator", Framework.ACCELERATE),
        ("import accelerate\naccelerate.Accelerator()", Framework.ACCELERATE),
        ("from transformers import Trainer", Framework.ACCELERATE),
        ("try:\n    from accelerate import Accelerator\nexcept ImportError:\n    pass", Framework.DIRECT),
        ("def main():\n    from accelerate import Accelerator", Framework.ACCELERATE),
        ("if __name__ == '__main__':\n    import jax", Framework.JAX),
        ("import jax\nimport torch", Framework.DIRECT),
        ("import jax\nimport torch\njax.distributed.initialize()", Framework.JAX),
        ("import deepspeed", Framework.DIRECT),
        ("import deepspeed\nparser.add_argument('--local_rank')", Framework.DEEPSPEED),
        ("import torch.distributed", Framework.DIRECT),
        ("(" * 5000, Framework.DIRECT),
    ],
)
def test_auto_reads_what_a_script_imports(here: Path, source: str, framework: Framework) -> None:
    (here / "train.py").write_text(source)
    assert understood("train.py").framework is framework


@pytest.mark.parametrize(
    "source",
    [
        "from torch.distributed.elastic.multiprocessing.errors import record\n@record\ndef main(): pass",
        "from torch.distributed.launcher.api import elastic_launch",
    ],
)
def test_a_script_that_works_without_torchrun_starts_without_it(
    here: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(source)
    assert understood("train.py").framework is Framework.DIRECT
    assert capsys.readouterr().err == ""


def test_auto_reads_local_modules_too_and_the_script_first(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "src/lib").mkdir(parents=True)
    (here / "src/train.py").write_text("from lib import model")
    (here / "src/lib/__init__.py").write_text("from . import loop")
    (here / "src/lib/loop.py").write_text("import jax\nfrom . import loop")
    assert understood("src/train.py").framework is Framework.JAX
    assert f"--framework jax, because of jax in {here}/src/lib/loop.py" in capsys.readouterr().err
    (here / "src/train.py").write_text("from lib import model\nfrom accelerate import Accelerator")
    assert understood("src/train.py").framework is Framework.ACCELERATE


def test_modules_are_read_as_python_finds_them(here: Path) -> None:
    (here / "pkg").mkdir()
    (here / "pkg/train.py").write_text("import jax")
    (here / "pkg/__main__.py").write_text("from .train import x")
    for words in (("-m", "pkg.train", "--lr", "3"), ("-m", "pkg", "--lr", "3")):
        assert understood(*words) == start.Program(words, Framework.JAX)
    assert understood("pkg.train", module=True).words == ("-m", "pkg.train")
    with pytest.raises(UsageError, match="expected the name of a module"):
        understood("-m")


def test_an_mpi_script_is_refused_unless_a_framework_is_named(here: Path) -> None:
    (here / "train.py").write_text("from mpi4py import MPI")
    assert understood("train.py", framework="torchrun").framework is Framework.TORCHRUN
    for words in (("train.py",), ("python", "train.py"), ("torchrun", "train.py")):
        with pytest.raises(UsageError, match=r"train\.py imports mpi4py, and pylaunch starts no MPI job") as caught:
            understood(*words)
        assert caught.value.hint == "start it with mpirun, which connects its ranks"


@pytest.mark.parametrize(
    ("line", "is_noted"),
    [
        ("torchrun --standalone --nproc_per_node 2 train.py", True),
        ("accelerate launch --num_processes 2 train.py", True),
        ("deepspeed train.py", True),
        ("torchrun --nnodes 1 train.py", False),
        ("torchrun --nnodes 2 --rdzv-endpoint=a:1 train.py", False),
        ("python train.py", False),
    ],
)
def test_a_line_of_one_machine_says_that_it_became_one_of_all(
    here: Path, capsys: pytest.CaptureFixture[str], line: str, is_noted: bool
) -> None:
    (here / "train.py").write_text("import torch.distributed")
    understood(*line.split())
    assert ("on every host: --nodes 1 for one machine" in capsys.readouterr().err) is is_noted
    understood(*line.split(), nodes=1)
    assert "on every host" not in capsys.readouterr().err


def test_options_of_a_pasted_line_apply_where_no_flag_overrides_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text("from accelerate import Accelerator")
    line = "OMP_NUM_THREADS=2 torchrun --standalone --nproc_per_node=2 --max-restarts 3 train.py -x"
    chosen, flags = start.understood(StartFlags(max_restarts=1, words=tuple(line.split())), None)
    assert (chosen.words, chosen.framework) == (("train.py", "-x"), Framework.ACCELERATE)
    assert (flags.nproc_per_node, flags.max_restarts, flags.env) == (2, 1, ("OMP_NUM_THREADS=2",))
    assert (
        "pylaunch starts the ranks in place of torchrun, takes over --nproc-per-node 2, --env OMP_NUM_THREADS=2"
        in capsys.readouterr().err
    )


def test_python_before_a_script_is_kept_unless_the_script_needs_a_framework(here: Path) -> None:
    (here / "train.py").write_text("import torch")
    assert understood("python", "-u", "train.py") == start.Program(("python", "-u", "train.py"), Framework.COMMAND)
    (here / "train.py").write_text("from accelerate import Accelerator")
    assert understood("python", "-u", "train.py", "-x") == start.Program(("train.py", "-x"), Framework.ACCELERATE)


def test_a_program_that_is_no_script_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="jax starts Python scripts, and hostname does not end in") as caught:
        understood("hostname", "-f", framework="jax")
    assert caught.value.hint == "pylaunch start --framework command -- hostname -f"
