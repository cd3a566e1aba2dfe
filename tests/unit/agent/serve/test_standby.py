"""The supervisor that becomes the one of the next attempt."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import cast

import pytest

from pylaunch.agent.run.kept_template import KeptTemplate
from pylaunch.agent.serve import standby
from pylaunch.agent.shared.layout import NodeRoot


class Kept:
    """A template that was kept, as far as the new program needs it."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel

    def encoded(self) -> bytes:
        return b"{}"


def test_news_of_a_log_cannot_end_the_program_before_it_listens_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new program has the default for signals with a handler: SIGIO ends a process."""
    found: list[object] = []
    monkeypatch.setattr(os, "execv", lambda program, words: found.append(signal.getsignal(signal.SIGIO)))
    monkeypatch.setattr(standby, "archive", lambda: "agent.pyz")
    before = signal.getsignal(signal.SIGIO)
    signal.signal(signal.SIGIO, lambda number, frame: None)
    try:
        with socket.socket(socket.AF_UNIX) as channel, socket.socket(socket.AF_UNIX) as listener:
            root = NodeRoot(str(tmp_path))
            standby.stand_by(root.run("r1"), root, cast(KeptTemplate, Kept(channel)), listener)
    finally:
        signal.signal(signal.SIGIO, before)
    assert found == [signal.SIG_IGN]
