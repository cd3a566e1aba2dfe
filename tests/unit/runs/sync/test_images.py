"""The file of an image that is no longer the one of the plan."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from pylaunch.base.layout import IMAGE_FILE, IMAGES
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Container
from pylaunch.runs.sync import images
from pylaunch.store.paths import cache_directory


@pytest.mark.parametrize("is_made", [True, False])
def test_a_changed_image_is_not_sent_and_removed_only_if_pylaunch_made_it(
    is_made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "ask", lambda *_, **__: {})
    monkeypatch.setattr(images, "parted", lambda *_: ({}, {}))
    file = (cache_directory() / "images" if is_made else tmp_path) / "image.sqsh"
    file.parent.mkdir(parents=True, exist_ok=True)
    mark = file.with_suffix(".json")
    mark.touch()
    os.utime(mark, (0, 0))
    file.write_text("another image")
    container = Container(f"{IMAGES}/{'0' * 64}/{IMAGE_FILE}", file=str(file))
    with pytest.raises(ClusterNotReadyError, match="was changed"):
        asyncio.run(images.send_image(container, Cluster((Host("n1", "10.0.0.1"),)), lambda _: None))
    assert file.exists() is not is_made
    assert (mark.stat().st_mtime > 0) is is_made
