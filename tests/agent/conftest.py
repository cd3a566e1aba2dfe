from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.runs.prepare import launch
from tests.agent.controller import Node


@pytest.fixture(scope="session")
def agent_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    path.write_bytes(launch.build().data)
    return path


@pytest.fixture
def node(tmp_path: Path, agent_archive: Path) -> Iterator[Node]:
    node = Node(tmp_path / "root", agent_archive)
    yield node
    node.close()
