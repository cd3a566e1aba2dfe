"""Reader of what a login has for containers: bubblewrap is really tried, and leaves nothing."""

import os
from pathlib import Path

import pytest

from pylaunch.agent.probe.readers.hosts.containers import engine
from tests.starts.containers import image_of_this_machine


def test_a_trial_in_the_way_of_each_kind_of_image_succeeds_and_leaves_no_mount(tmp_path: Path) -> None:
    image = image_of_this_machine(tmp_path / "image")
    file = tmp_path / "image.sqsh"
    file.touch()
    before = Path("/proc/self/mounts").read_text()
    for path, kind in ((image, "directory"), (file, "file")):
        found = engine(str(path))
        assert (found["image"], found["refused"]) == (kind, ""), found
        assert found["version"].startswith("bubblewrap ")
    assert engine(str(tmp_path / "none"))["image"] == ""
    assert Path("/proc/self/mounts").read_text() == before


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_what_refuses_a_trial_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    (tmp_path / "bwrap").write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec echo bubblewrap 9\necho "bwrap: no" >&2; exit 1\n'
    )
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    image = tmp_path / "image"
    image.mkdir() if kind == "directory" else image.touch()
    found = engine(str(image))
    assert (found["version"], found["refused"]) == ("bubblewrap 9", "bwrap: no")
    monkeypatch.setenv("PATH", "/nowhere")
    found = engine(str(image))
    assert (found["version"], found["has_opener"], found["refused"]) == ("", False, "")
