"""Logs of a run: copies stay in the directory that was named, and a text selects lines."""

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest

from pylaunch import protocol
from pylaunch.errors import UsageError
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.agent_link import AgentLink
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.events import LinesWritten
from pylaunch.runs.logs import Collector, LogQuery, read_each, relay
from pylaunch.transport.connections import LocalConnector
from pylaunch.transport.interrupts import InterruptSource
from pylaunch.transport.process import Child
from tests.unit.runs.follow.test_run_follower import Listener
from tests.unit.runs.messages import arrive


def collector_of(directory: Path) -> Collector:
    return Collector(directory, lambda _: None)


def test_output_is_collected_by_host_and_stream_and_replaces_earlier_copies(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "0.out").write_text("of an earlier run\n")
    collector = collector_of(tmp_path)
    collector.take(LinesWritten("n1", "0.out", "a\n", 1.0))
    collector.take(LinesWritten("n1", "0.out", "b\udcff\n", 1.0))
    assert (tmp_path / "n1" / "0.out").read_bytes() == b"a\nb\xff\n"


@pytest.mark.parametrize("names", [("..", "x"), ("n1", ".."), ("n1", "/etc/x"), ("n1", "a/b"), ("/", "x"), ("n1", "")])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="is not a file name"):
        collector_of(tmp_path / "logs").take(LinesWritten(*names, "x\n", 1.0))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_links_and_devices_are_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    logs = tmp_path / "logs"
    (logs / "n1").mkdir(parents=True)
    (logs / "n1" / "0.out").symlink_to(outside / "precious")
    os.mkfifo(logs / "n1" / "1.out")
    (logs / "n2").symlink_to(outside)
    for host, stream in (("n1", "0.out"), ("n1", "1.out"), ("n2", "precious")):
        with pytest.raises(UsageError, match="cannot be written"):
            collector_of(logs).take(LinesWritten(host, stream, "x\n", 1.0))
    assert (outside / "precious").read_text() == "kept"


def test_a_log_that_cannot_be_read_ends_the_ones_after_it() -> None:
    read: list[str] = []

    def fails(_: InterruptSource) -> None:
        read.append("first")
        raise UsageError("no room")

    with pytest.raises(UsageError, match="no room"):
        read_each([fails, *[lambda _: read.append("later")] * 3], lambda *_: nullcontext(), at_once=False)
    assert read.count("later") < 3


CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
RECORD = RunRecord(plan_run(CLUSTER, JobSpec(("a",), Framework.COMMAND, "/"), "7f3a9c01"), "v", 1.0, (), None)


def test_the_logs_of_a_node_that_falls_silent_are_not_awaited_for_ever() -> None:
    """Its agent is stopped after its Hello, for example; the ranks of another node write on."""
    listener = Listener()

    async def write_on(fleet: Fleet) -> None:
        while True:
            arrive(fleet, ("n1", protocol.Skipped("0.out", 0, 1, "0.out", "/a b: Permission denied")))
            await asyncio.sleep(0.005)

    async def read() -> None:
        fleet = Fleet(RECORD.plan, "v")
        for host in CLUSTER.hosts:
            hello = protocol.Hello(protocol.PROTOCOL, 7, "running", [])
            link = AgentLink(LocalConnector(host), cast(Child, None), hello, ClockOffset(0.0, 0.0))
            link.is_awaited = True
            fleet.links[host.name] = link
        arrive(fleet, ("n1", protocol.CaughtUp()))
        writing = asyncio.ensure_future(write_on(fleet))
        try:
            await asyncio.wait_for(relay(fleet, listener, LogQuery(RECORD.plan.nodes, []), silent_s=0.2), 20)
        finally:
            writing.cancel()

    asyncio.run(read())
    assert listener.phases[0].endswith("; on n1: chmod 700 '/a b'")
    assert listener.phases[-1] == "n2: silent for 0.2 s; the logs may continue"
