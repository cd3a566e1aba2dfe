"""Handshakes of ssh with many hosts: few at once, whoever opens the connections."""

import asyncio
import re
import selectors
import shutil
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from pylaunch.checks.mesh import measure_mesh
from pylaunch.model.cluster import Cluster, Host, SshOptions
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.probe.ask import ask
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.transport import connections

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh on this machine")

HOSTS = 12
MOST = 4
QUIET_S = 0.5


class Silent:
    """A server that accepts connections, says nothing, and closes all when no further one has come for a moment.

    While `MOST` handshakes may run, no further one comes, however long it takes.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("", 0), backlog=4 * HOSTS)
        self.port: int = self._listener.getsockname()[1]
        self.most = 0
        self._stopped, self._stopping = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.close()
        self._thread.join()

    def _serve(self) -> None:
        connections: list[socket.socket] = []
        with selectors.DefaultSelector() as selector, self._listener, self._stopped:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(QUIET_S)]
                if self._stopped in ready or not ready:
                    for each in connections:
                        each.close()
                    connections.clear()
                if self._stopped in ready:
                    return
                if self._listener in ready:
                    connections.append(self._listener.accept()[0])
                    self.most = max(self.most, len(connections))


@pytest.fixture
def server() -> Iterator[Silent]:
    server = Silent()
    yield server
    server.stop()


def probed(cluster: Cluster) -> list[str]:
    return [str(answer) for answer in ask(cluster, dict.fromkeys(cluster.names, b"")).values()]


def started(cluster: Cluster) -> list[str]:
    plan = plan_run(cluster, JobSpec(("true",), Framework.COMMAND, "/"), "7f3a9c01")

    async def connect() -> list[str]:
        fleet = Fleet(plan, "0123")
        failures = await fleet.connect(cluster.names, "open")
        await fleet.close()
        return [str(failure) for failure in failures.values()]

    return asyncio.run(connect())


def measured(cluster: Cluster) -> list[str]:
    return [str(readings) for readings in asyncio.run(measure_mesh(cluster, None)).values()]


@pytest.mark.parametrize("connect", [probed, started, measured])
def test_many_new_connections_are_opened_a_few_at_a_time_and_none_times_out_in_the_queue(
    server: Silent, monkeypatch: pytest.MonkeyPatch, connect: Callable[[Cluster], list[str]]
) -> None:
    monkeypatch.setattr(connections, "TURNS", connections.Turns(MOST, slow_s=600))
    ends = connect(unanswered(server))
    assert len(ends) == HOSTS
    assert all(re.search("Connection closed|Connection reset|Broken pipe", end) for end in ends), ends
    assert 1 <= server.most <= MOST


def unanswered(server: Silent) -> Cluster:
    options = SshOptions("nobody", server.port, common_args=("-F", "none"))
    return Cluster(tuple(Host(f"n{number}", f"127.0.1.{number}", ssh=options) for number in range(1, HOSTS + 1)))
