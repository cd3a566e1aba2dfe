"""Foreign programs for contracts, made the way users make them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.runs.prepare import launch
from tests.agent.controller import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node that is a directory of this machine, with the agent."""
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(launch.build().data)
    node = Node(tmp_path / "root", agent)
    yield node
    node.close()
