"""Readers of leftovers on a host where files and descriptors appear and vanish during a reading."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.readers.hosts import leftovers
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.sockets import ports


@pytest.fixture
def vanishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add an entry to every directory listing that no longer exists."""
    listed = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: ["7777777", *listed(path)])


def test_a_file_that_vanishes_during_a_reading_does_not_hide_others(
    vanishing: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "torch_4194300_123_0"
    left.write_bytes(b"x")
    os.utime(left, (0, 0))
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", str(tmp_path))
    assert leftovers.shared_memory(None)["files"] == [str(left)]


def test_a_listener_is_reported_with_its_descriptor_and_a_bound_port_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        found: dict[int, Any] = {port: (uid, link) for port, uid, link in ports.listening()}
        assert bound.getsockname()[1] not in found
        uid, link = found[server.getsockname()[1]]
        assert uid == os.getuid()
        assert link in (processes.open_files(os.getpid()) or ())
