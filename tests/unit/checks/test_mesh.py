"""The session with one node of the network test."""

import asyncio
from typing import Any, cast

import pytest

from pylaunch.checks import mesh
from pylaunch.checks.mesh import _NoAnswerError, _NodeSession
from pylaunch.model.cluster import Host


class _Deaf:
    """A node that reads nothing, so that its pipe stays full."""

    async def send(self, line: bytes) -> None:
        await asyncio.Event().wait()


def test_a_node_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "SEND_TIMEOUT_S", 0.01)
    session = _NodeSession(Host("n1", "10.0.0.1"), cast(Any, _Deaf()))
    with pytest.raises(_NoAnswerError, match=r"it has read nothing for 0\.01 s"):
        asyncio.run(asyncio.wait_for(session.send({"connect": []}), 10))
