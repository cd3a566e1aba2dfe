"""An image for several runs, and the file of one that is no longer the one of the plan."""

import asyncio
import os
from pathlib import Path
from unittest import mock

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
        asyncio.run(images.ImageTransfers().send(container, Cluster((Host("n1", "10.0.0.1"),)), lambda _: None))
    assert file.exists() is not is_made
    assert (mark.stat().st_mtime > 0) is is_made


def test_a_run_sends_an_image_to_the_hosts_of_all_runs_and_one_that_is_interrupted_while_it_waits_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n1, n2 = (Cluster((Host(name, name),)) for name in ("n1", "n2"))
    both = Cluster((*n1.hosts, *n2.hosts))
    container = Container("images/x/image")
    shared = images.ImageTransfers({container.image: both})
    sent: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    is_sent = asyncio.Event()

    async def send(_: Container, cluster: Cluster, say: object, everywhere: Cluster) -> dict[str, tuple[str, str]]:
        sent.append((cluster.names, everywhere.names))
        if len(sent) == 1:
            await is_sent.wait()
        return {}

    async def story() -> None:
        runs = [asyncio.create_task(shared.send(container, cluster, lambda _: None)) for cluster in (n1, n2, n2)]
        await asyncio.sleep(0)
        runs[1].cancel()
        is_sent.set()
        assert await asyncio.gather(*runs, return_exceptions=True) == [{}, mock.ANY, {}]
        assert runs[1].cancelled()

    monkeypatch.setattr(images, "_send", send)
    asyncio.run(story())
    assert sent == [(("n1",), ("n1", "n2")), (("n2",), ("n2",))]
