"""Large packages are imported in a rank without garbage collection, and a script finds everything as usual."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

INSTALLED = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
PYTHONS = ["/usr/bin/python3", *(str(path) for n in (8, 12, 13, 14) for path in INSTALLED.glob(f"3.{n}.*/bin/python3"))]
every_python = pytest.mark.parametrize("python", PYTHONS)

STATE = "import gc\nstate = (gc.get_threshold()[0] > 2**30, gc.isenabled())\n"
COLLECTIONS = """
import gc
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
import torch
during, kept = len(seen), [[] for _ in range(100)]
print(during, len(seen), gc.get_freeze_count() < 2000, any(each is torch.made for each in gc.get_objects()))
"""


class Rank:
    """Runs scripts as a Python rank does, with fake packages."""

    def __init__(self, agent_archive: Path, directory: Path) -> None:
        self._hook = f"{agent_archive}/pylaunch/agent/in_rank"
        self._directory = directory
        self._site = directory / "site"
        self._site.mkdir()

    def package(self, name: str, source: str) -> None:
        self.module(f"{name}.__init__", source)

    def module(self, name: str, source: str) -> None:
        path = self._site.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    def run(self, script: str, *, python: str = PYTHONS[0], options: tuple[str, ...] = (), plain: bool = False) -> str:
        """Return stdout and stderr, of a start without the hook if `plain`."""
        (self._directory / "train.py").write_text(script)
        path = str(self._site) if plain else f"{self._hook}:{self._site}"
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        words = [python, *options, *(() if "-m" in options else (str(self._directory / "train.py"),))]
        ended = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return ended.stdout

    def shows_nothing(self, script: str, python: str, *options: str) -> str:
        """Return the output of `script`, which is the same without the hook."""
        output = self.run(script, python=python, options=options)
        assert output == self.run(script, python=python, options=options, plain=True)
        return output


@pytest.fixture
def rank(agent_archive: Path, tmp_path: Path) -> Rank:
    return Rank(agent_archive, tmp_path)


@every_python
def test_garbage_collection_is_paused_until_the_end_of_the_outermost_import(rank: Rank, python: str) -> None:
    rank.package("numpy", STATE)
    rank.package("torch", f"import numpy\n{STATE}")
    rank.package("torch.distributed", STATE)
    rank.package("own", STATE)
    names = "numpy, torch, torch.distributed as distributed, own"
    script = f"import {names}\nfor each in numpy, torch, distributed, own: print(*each.state)\n{STATE}print(*state)"
    paused, ordinary = "True True\n", "False True\n"
    assert rank.run(script, python=python) == 3 * paused + 2 * ordinary


@every_python
def test_an_import_within_a_function_is_ordinary(rank: Rank, python: str) -> None:
    """A pause would make objects of the function old, and collect them later than an ordinary import does."""
    rank.package("torch", STATE)
    rank.module("own", "def late():\n    import torch\n    print(*torch.state)")
    assert rank.run("import own\nown.late()", python=python) == "False True\n"


@every_python
def test_neither_the_import_nor_its_end_looks_for_garbage(rank: Rank, python: str) -> None:
    rank.package("torch", "made = [[] for _ in range(50000)]")
    assert rank.run(COLLECTIONS, python=python) == "0 0 True True\n"
    assert not rank.run(COLLECTIONS, python=python, plain=True).startswith("0 ")


def test_garbage_is_collected_again_after_the_import(rank: Rank) -> None:
    rank.package("torch", "made = [[] for _ in range(50000)]")
    script = f"{COLLECTIONS}more = [[] for _ in range(50000)]\nprint(len(seen) > 0)"
    assert rank.run(script).splitlines()[1] == "True"


LOOKS = """
import gc, importlib, importlib.util, pkgutil, sys
def show(*words): print(*[str(word).replace(hex(id(word)), "") for word in words])
def names(spec): return type(spec.loader).__name__, sorted(vars(spec.loader)), spec.name, spec.origin
show(*names(importlib.util.find_spec("torch")), "torch" in sys.modules)
import torch, torch.nested
for module in (torch, torch.nested):
    show(*names(module.__spec__), module.__spec__.loader is module.__loader__, module.loader_then, sorted(vars(module)))
importlib.reload(torch)
show(*names(torch.__spec__), torch.state)
import scipy
show(scipy.__path__, type(scipy.__spec__.loader).__name__)
lazy = importlib.util.find_spec("yaml")
lazy.loader = importlib.util.LazyLoader(lazy.loader)
module = importlib.util.module_from_spec(lazy)
lazy.loader.exec_module(module)
show(module.value, sorted(vars(module.__spec__.loader)))
for name in ("deepspeed", "torch.absent", "jax.absent"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        show(error, error.name, error.path)
show(gc.get_threshold(), gc.isenabled(), gc.get_freeze_count())
"""


@every_python
@pytest.mark.parametrize("options", [(), ("-X", "dev"), ("-W", "error"), ("-O",)])
def test_modules_and_their_loaders_are_ordinary(rank: Rank, python: str, options: tuple[str, ...]) -> None:
    loader_then = "loader_then = sorted(set(vars(__loader__)) - {'name', 'path'})\n"
    rank.package("torch", f"{loader_then}import gc\nstate = gc.isenabled()")
    rank.package("torch.nested", loader_then)
    rank.package("yaml", "value = 1")
    rank.package("scipy.part", "")
    output = rank.shows_nothing(LOOKS, python, *options)
    assert "No module named 'deepspeed'" in output, output
    assert "Traceback" not in output, output


@every_python
@pytest.mark.parametrize("error", ["ValueError('not here')", "ImportError('not here')", "SystemExit(3)"])
def test_an_import_that_fails_shows_the_ordinary_traceback(rank: Rank, python: str, error: str) -> None:
    rank.package("torch", f"def fail():\n    raise {error}\nimport torch.part")
    rank.package("torch.part", "import torch\ntorch.fail()")
    rank.shows_nothing("import torch", python)
    script = f"try:\n    import torch\nexcept BaseException as error:\n    print(type(error))\n{STATE}print(*state)"
    assert rank.shows_nothing(script, python).endswith("False True\n")


def test_a_module_that_runs_as_the_script_imports_its_packages(rank: Rank) -> None:
    rank.package("torch", f"{STATE}print(*state, __name__)")
    rank.package("torch.run", STATE)
    rank.module("torch.run.script", f"import torch.run\nprint(*torch.run.state)\n{STATE}print(*state, __name__)")
    output = rank.run("", options=("-m", "torch.run.script"))
    assert output.splitlines() == ["True True torch", "True True", "False True __main__"]


@every_python
@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("gc.disable()", "False (700, 10, 10)"),
        ("gc.set_threshold(0)", "True (0, 10, 10)"),
        ("gc.set_threshold(5000, 20, 30)", "True (5000, 20, 30)"),
        ("gc.disable(); gc.enable()", "True (700, 10, 10)"),
        ("old = gc.get_threshold(); gc.set_threshold(9); gc.set_threshold(*old)", "True (700, 10, 10)"),
        ("gc.freeze(); gc.unfreeze(); gc.collect()", "True (700, 10, 10)"),
    ],
)
def test_settings_of_a_package_stay(rank: Rank, python: str, source: str, after: str) -> None:
    rank.package("torch", f"import gc; {source}")
    script = "import gc\ngc.set_threshold(700, 10, 10)\nimport torch\nprint(gc.isenabled(), gc.get_threshold())"
    output = rank.shows_nothing(script, python)
    assert output.startswith(after[: after.rindex(",")])  # Python 3.14 has two generations.


@pytest.mark.parametrize("setting", ["gc.disable()", "gc.set_threshold(0)", "gc.freeze()"])
def test_settings_of_the_script_stay(rank: Rank, setting: str) -> None:
    rank.package("torch", "made = [[] for _ in range(50000)]")
    script = f"import gc\n{setting}\nimport torch\nprint(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0)"
    rank.shows_nothing(script, PYTHONS[0])


FORKS = """
import gc, os, sys
def child():
    pid = os.fork()
    if pid == 0:
        print(gc.get_threshold()[0], flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_child_that_an_import_forks_collects_garbage(rank: Rank) -> None:
    rank.package("torch", f"{FORKS}gc.set_threshold(*gc.get_threshold())\nchild()\npaused = gc.get_threshold()[0]")
    script = "import gc\ngc.set_threshold(600)\nimport torch\nprint(torch.paused > 600, gc.get_threshold()[0])"
    assert rank.run(script) == "600\nTrue 600\n"


def test_an_import_that_another_thread_does_is_an_ordinary_one(rank: Rank) -> None:
    rank.package("torch", STATE)
    script = "import threading\nt = threading.Thread(target=lambda: __import__('torch'))\nt.start(); t.join()\n"
    assert rank.run(f"{script}import torch\nprint(*torch.state)") == "False True\n"


def test_a_child_that_multiprocessing_spawns_pauses_too(rank: Rank) -> None:
    rank.package("torch", f"{STATE}def show(): print(*state, flush=True)")
    script = (
        "import multiprocessing\nif __name__ == '__main__':\n    import torch\n    torch.show()\n"
        "    child = multiprocessing.get_context('spawn').Process(target=torch.show)\n    child.start(); child.join()"
    )
    assert rank.run(script) == "True True\nTrue True\n"
