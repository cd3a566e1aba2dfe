"""The session with one node of the network test."""

import asyncio
from typing import Any, cast

import pytest

from pylaunch.agent.piped import mesh as node_side
from pylaunch.checks import mesh
from pylaunch.checks.mesh import _NoAnswerError, _NodeSession
from pylaunch.model.cluster import Cluster, Host


class _Deaf:
    """A node that reads nothing, so that its pipe stays full."""

    async def send(self, line: bytes) -> None:
        await asyncio.Event().wait()


def test_a_node_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "SEND_TIMEOUT_S", 0.01)
    session = _NodeSession(Host("n1", "10.0.0.1"), cast(Any, _Deaf()))
    with pytest.raises(_NoAnswerError, match=r"it has read nothing for 0\.01 s"):
        asyncio.run(asyncio.wait_for(session.send({"connect": []}), 10))


def test_a_low_limit_of_open_files_makes_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "hosts_at_once", lambda count: min(count, 3))
    cluster = Cluster(tuple(Host(f"n{number}", f"10.0.0.{number}") for number in range(1, 7)))
    blocks = [block.names for block in mesh._blocks(cluster)]
    assert blocks == [("n1", "n2", "n3"), ("n1", "n4", "n5"), ("n1", "n6")]


def test_a_row_is_awaited_until_the_last_connection_of_a_full_block_has_had_its_time() -> None:
    connections = 2 * (mesh.BLOCK - 1)
    assert node_side.STEP_S + connections * node_side.AT_LEAST_S < mesh.ROW_TIMEOUT_S
