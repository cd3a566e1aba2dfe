"""Contract with torch: its store can listen on a port that the agent holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.transport import process
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from datetime import timedelta
sys.path.insert(0, sys.argv[1])
from pylaunch.agent.shared.sockets import ports
from torch.distributed import TCPStore
port, use_libuv = int(sys.argv[2]), sys.argv[3] == "True"
with ports.hold(port):
    store = TCPStore("127.0.0.1", port, 1, True, timeout=timedelta(seconds=60), use_libuv=use_libuv)
    store.set("key", "value")
    assert store.get("key") == b"value"
    try:
        ports.hold(port)
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("use_libuv", [True, False])
def test_the_store_listens_on_a_held_port_and_nobody_else_can(torch_python: Path, use_libuv: bool) -> None:
    words = (str(torch_python), "-c", SCRIPT, str(ROOT), str(free_port()), str(use_libuv))
    assert process.run(words, timeout_s=300).checked().stdout == "Address already in use\n"
