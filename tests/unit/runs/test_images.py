"""Room for an image is known before any of it is sent."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pylaunch.agent.piped import images as on_node
from pylaunch.base.layout import IMAGE_FILE, IMAGES
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Container
from pylaunch.runs.sync import images

DIGEST = "a" * 64
PATH = f"{DIGEST}/{IMAGE_FILE}"


def test_a_node_counts_pieces_of_the_image_as_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = tmp_path / "root/images" / DIGEST / ".pylaunch-push-x"
    pieces.mkdir(parents=True)
    (tmp_path / "root").chmod(0o700)
    (pieces / "0").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4096))
    on_node.has(str(tmp_path / "root"), PATH)
    written = (pieces / "0").stat().st_blocks * 512
    assert f'"has": false, "free": {written + 4096}, "store": "{tmp_path}/root/images"' in capsys.readouterr().out


def test_nothing_is_sent_where_a_host_of_the_run_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tmp_path / "torch.sqsh"
    image.write_bytes(bytes(3 << 20))
    store = "/var/tmp/pylaunch-0/images\x1b[2J"
    answers = {
        "n1": {"has": False, "free": 1 << 30, "store": store},
        "n2": {"has": False, "free": 2 << 20, "store": store},
        "n3": {"has": False},
        "n4": {"has": True, "free": 0, "store": store},
    }
    monkeypatch.setattr(images, "ask", lambda *_, **__: answers)
    monkeypatch.setattr(images, "spread", None)
    said: list[str] = []
    cluster = Cluster(tuple(Host(name, "10.0.0.1") for name in answers))
    container = Container(f"{IMAGES}/{PATH}", file=str(image))
    failed = asyncio.run(images.ImageTransfers().send(container, cluster, said.append))
    why = "3.0 MiB are needed in /var/tmp/pylaunch-0/images\\x1b[2J and 2.0 MiB are free"
    assert failed == {"n2": (why, images.NO_ROOM)}
    assert said == []
