"""An image for several runs, room for it, and the file of one that is no longer the one of the plan."""

import asyncio
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from pylaunch.agent.piped import images as node_images
from pylaunch.agent.probe.readers.hosts.containers import engine
from pylaunch.base.layout import IMAGE_FILE, IMAGES
from pylaunch.checks import suite
from pylaunch.checks.survey import Look, Survey
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Container
from pylaunch.runs.sync import images
from pylaunch.store.paths import cache_directory

DIGEST = "a" * 64
ENGINE = str(engine)
PATH = f"{DIGEST}/{IMAGE_FILE}"


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
    container = Container("images/x/image")
    shared = images.ImageTransfers()
    for run in (n1, n2, n2):
        shared.expect(container, run.hosts, run)
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


def test_a_node_counts_pieces_of_the_image_as_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = tmp_path / "root/images" / DIGEST / ".pylaunch-push-x"
    pieces.mkdir(parents=True)
    (tmp_path / "root").chmod(0o700)
    (pieces / "0").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4096))
    node_images.has(str(tmp_path / "root"), PATH)
    written = (pieces / "0").stat().st_blocks * 512
    assert f'"has": false, "free": {written + 4096}, "store": "{tmp_path}/root/images"' in capsys.readouterr().out


def test_nothing_is_sent_where_a_host_of_the_run_has_no_room_or_could_not_mount_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "torch.sqsh"
    image.write_bytes(bytes(3 << 20))
    store = "/var/tmp/$(id)/images\x1b[2J"
    answers = {
        "n1": {"has": False, "free": 1 << 30, "store": store},
        "n2": {"has": False, "free": 2 << 20, "store": store},
        "n3": {"has": False},
        "n4": {"has": True, "free": 0, "store": store},
    }
    monkeypatch.setattr(images, "ask", lambda *_, **__: answers)

    async def spread(hosts: Cluster, *_: object, **__: object) -> None:
        raise UsageError(" ".join(hosts.names))

    monkeypatch.setattr(images, "spread", spread)
    able = {"image": "file", "is_readable": True, "version": "0.8", "has_opener": True, "fuse": "", "refused": ""}
    looks = {"n1": Look({ENGINE: able}), "n3": Look({ENGINE: {**able, "has_opener": False}})}
    monkeypatch.setattr(suite, "take", lambda hosts, wanted, *_, **__: Survey(hosts, wanted, looks))
    lines: list[str] = []
    cluster = Cluster(tuple(Host(name, "10.0.0.1") for name in answers))
    container = Container(f"{IMAGES}/{PATH}", file=str(image))
    failed = asyncio.run(images.ImageTransfers().send(container, cluster, lines.append))
    why = "3.0 MiB are needed in /var/tmp/$(id)/images\\x1b[2J and 2.0 MiB are free"
    assert failed["n2"] == (why, images.NO_ROOM.format(du="du -sh '/var/tmp/$(id)/images\\x1b[2J'"))
    assert list(failed) == ["n3", "n2"]
    assert failed["n3"][0] == "squashfuse not found, which a container needs"
    assert failed["n3"][1].endswith("pylaunch provision --roles container_engine --limit n3")
    assert lines == []
    container = Container(f"{IMAGES}/{hashlib.sha256(image.read_bytes()).hexdigest()}/{IMAGE_FILE}", file=str(image))
    shared = images.ImageTransfers()
    shared.expect(container, cluster.hosts, cluster)
    with pytest.raises(ClusterNotReadyError, match=r"the image cannot be sent: n1$"):  # Only to the host of this run.
        asyncio.run(shared.send(container, cluster.only(["n1"]), lines.append))
