"""The archive: one small file, the same bytes every time, that any supported Python runs."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pylaunch
from pylaunch import protocol
from pylaunch.runs.prepare import launch
from tests.agent.controller import Node, task

INTERPRETERS = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"))
SUPPORTED = [path for path in INTERPRETERS if int(path.parts[-3].split(".")[1]) >= 8]


def test_the_archive_prints_the_hash_of_its_content_as_its_version(agent_archive: Path) -> None:
    words = [sys.executable, "-I", "-S", str(agent_archive), "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == launch.build().version


ROOMS = ("agent", "base", "protocol", "runtime")
"""Packages that run on nodes."""

IMPORT_ALL = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
"""


@pytest.mark.parametrize("python", SUPPORTED, ids=lambda path: path.parts[-3])
def test_every_module_that_runs_on_nodes_imports_on_every_supported_python(python: Path, tmp_path: Path) -> None:
    package = Path(pylaunch.__file__).parent
    sent = [each.relative_to(package) for each in sorted(package.glob("features/*/on_node*"))]
    places = [*map(Path, ROOMS), *sent]
    found = [(package / place, sorted((package / place).rglob("*.py"))) for place in places]
    files = [file for place, inside in found for file in (inside or [place])]
    modules = [
        ".".join(("pylaunch", *file.relative_to(package).with_suffix("").parts))
        for file in files
        if file.name not in ("__init__.py", "__main__.py")
    ]
    # Not the whole package: the controller's part is for newer Pythons.
    (tmp_path / "pylaunch").mkdir()
    (tmp_path / "pylaunch/__init__.py").touch()
    for place in places:
        link = tmp_path / "pylaunch" / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(package / place)
    words = [str(python), "-B", "-I", "-S", "-c", IMPORT_ALL, str(tmp_path), *modules]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("python", SUPPORTED, ids=lambda path: path.parts[-3])
def test_a_run_goes_well_on_every_supported_python(
    python: Path, agent_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(python))
    node = Node(tmp_path / "root", agent_archive)
    launcher = ["/bin/sh", "-c", 'LOCAL_RANK=0 "$@"', "sh", protocol.RANK_ENTRY]
    controller = node.started(task(tmp_path, "setsid sleep 60 & echo ran", launcher=launcher))
    assert Path(f"/proc/{controller.all(protocol.Hello)[0].pid}/exe").resolve() == python.resolve()
    assert controller.until(protocol.Finished).leftovers == []
    assert controller.text("0.out") == "ran\n"


def kept_beside(node: Node) -> Path:
    return node.archive.with_name(f"{node.archive.name}.{sys.implementation.cache_tag}")


def own_copy(node: Node, tmp_path: Path) -> Node:
    """One that has not started yet."""
    return Node(node.root, Path(shutil.copy(node.archive, tmp_path / "agent.pyz")))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_compiled_modules_of_another_user_are_not_run(node: Node, tmp_path: Path) -> None:
    node = own_copy(node, tmp_path)
    kept_beside(node).write_text("not an archive")
    os.chown(kept_beside(node), 65534, 65534)
    assert node.ask("runs").returncode == 0


@pytest.mark.parametrize("damage", ["a FIFO", "open to others"])
def test_compiled_modules_that_others_can_change_are_not_run_and_replaced(
    damage: str, node: Node, tmp_path: Path
) -> None:
    node = own_copy(node, tmp_path)
    assert node.ask("runs").returncode == 0
    kept = kept_beside(node)
    if damage == "a FIFO":
        kept.unlink()
        os.mkfifo(kept)
    else:
        kept.write_text("not an archive")
        kept.chmod(0o666)
    assert node.ask("runs").returncode == 0
    assert (zipfile.is_zipfile(kept), kept.stat().st_mode & 0o777) == (True, 0o600)
