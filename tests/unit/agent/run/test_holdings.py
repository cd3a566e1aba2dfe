"""Reasons for what a run cannot hold on a node."""

from __future__ import annotations

import errno

import pytest

from pylaunch.agent.run import holdings
from pylaunch.agent.shared import cgroups
from pylaunch.agent.shared.sockets import ports


def test_the_container_of_a_process_that_has_the_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ports.Listener(4121, "root", "python train.py", None, None)
    monkeypatch.setattr(ports, "listener", lambda _: found)
    monkeypatch.setattr(cgroups, "container", lambda pid: "podman container 2e9bd74915d6" if pid == 4121 else "")
    reason = holdings._port_problem(29500, OSError(errno.EADDRINUSE, ""))
    held = "port 29500 is held by pid 4121 (python train.py) of root in podman container 2e9bd74915d6"
    assert (reason.code, reason.message) == ("port-busy", held)
