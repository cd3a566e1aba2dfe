"""Listeners of this machine, and the processes that have their descriptors open."""

import os
import socket
from typing import Any

from pylaunch.agent.shared import processes
from pylaunch.agent.shared.sockets import ports


def test_a_listener_is_reported_with_its_descriptor_and_a_bound_port_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        found: dict[int, Any] = {port: (uid, link) for port, uid, link in ports.listening()}
        assert bound.getsockname()[1] not in found
        uid, link = found[server.getsockname()[1]]
        assert uid == os.getuid()
        assert link in (processes.open_files(os.getpid()) or ())
