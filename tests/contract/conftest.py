"""Foreign programs for contracts, made the way users make them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.launch.start import archive
from pylaunch.transport import process
from tests.agent.controller import Node
from tests.node_python import NODE_PYTHON

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = """\
here ansible_connection=local ansible_host=127.0.0.1 interface=lo pylaunch_node_root={directory}/node

[all:vars]
pylaunch_unprivileged=true
pylaunch_env_root={directory}/env
"""


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An interpreter with PyTorch: the examples' environment, provisioned on this machine as a local node."""
    directory = tmp_path_factory.mktemp("torch")
    inventory = directory / "cluster.ini"
    inventory.write_text(HERE.format(directory=directory))
    for words in (("env", "lock", "--python", NODE_PYTHON, str(EXAMPLES / "requirements.txt")), ("provision",)):
        process.run((sys.executable, "-m", "pylaunch", *words, "-i", str(inventory)), timeout_s=600).checked()
    yield directory / "env" / "current" / "bin" / "python"
    shutil.rmtree(directory)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node that is a directory of this machine, with the agent."""
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(archive.build().data)
    node = Node(tmp_path / "root", agent)
    yield node
    node.close()
