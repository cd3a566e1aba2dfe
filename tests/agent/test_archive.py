"""The archive: one small file, the same bytes every time, that any supported Python runs."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pylaunch.agent import wire
from pylaunch.launch import archive
from tests.agent.controller import Node, task

BUDGET = 96 * 1024
"""Sent once to a node that does not carry it; beyond starting and stopping ranks it carries what agents say
to each other, pylaunch.runtime, and the receiving of code."""
INTERPRETERS = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3"))
SUPPORTED = [path for path in INTERPRETERS if int(path.parts[-3].split(".")[1]) >= 8]


def test_the_same_source_makes_the_same_bytes() -> None:
    assert archive.build() == archive.build()


def test_the_archive_is_small() -> None:
    assert len(archive.build().data) <= BUDGET


def test_what_only_the_probe_carries_stays_behind() -> None:
    with zipfile.ZipFile(io.BytesIO(archive.build().data)) as zipped:
        modules = {Path(name).stem for name in zipped.namelist()}
    assert modules.isdisjoint({"facts", "portrait", "gpu"})


def test_the_archive_says_the_version_that_its_content_has(agent_archive: Path) -> None:
    words = [sys.executable, "-I", "-S", str(agent_archive), "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == archive.build().version


@pytest.mark.parametrize("python", SUPPORTED, ids=lambda path: path.parts[-3])
def test_a_run_goes_well_on_every_supported_python(
    python: Path, agent_archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(python))
    node = Node(tmp_path / "root", agent_archive)
    launcher = ["/bin/sh", "-c", 'LOCAL_RANK=0 "$@"', "sh", wire.RANK_ENTRY]
    controller = node.started(task(tmp_path, "setsid sleep 60 & echo ran", launcher=launcher))
    assert controller.until(wire.Finished).leftovers == []
    assert controller.text("0.out") == "ran\n"
    assert controller.all(wire.Hello)[0].python == python.parts[-3]
