"""Logs of a run that its nodes do not have."""

import asyncio
from typing import cast

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.agent_link import AgentLink
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.existing.logs import LogQuery, beside, relay, report_silence
from pylaunch.transport.local import LocalConnector
from pylaunch.transport.process import Child
from tests.unit.runs.follow.test_run_follower import Listener
from tests.unit.runs.messages import arrive

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
RECORD = RunRecord(plan_run(CLUSTER, JobSpec(("a",), Framework.COMMAND, "/"), "7f3a9c01"), "v", 1.0, (), None)


def test_the_logs_of_a_node_that_falls_silent_are_not_awaited_for_ever() -> None:
    """Its agent is stopped after its Hello, for example."""
    listener = Listener()

    async def read() -> None:
        fleet = Fleet(RECORD.plan, "v")
        for host in CLUSTER.hosts:
            hello = protocol.Hello(protocol.PROTOCOL, "v", "7f3a9c01", host.name, 7, 0, "3.11.2", "running", 0.0, [])
            link = AgentLink(LocalConnector(host), cast(Child, None), hello, ClockOffset(0.0, 0.0))
            link.is_awaited = True
            fleet.links[host.name] = link
        await arrive(fleet, ("n1", protocol.CaughtUp()))
        async with asyncio.timeout(60), beside(report_silence(fleet, look_s=0.01, looks=3)):
            await relay(fleet, listener, LogQuery(RECORD.plan.nodes, []))

    asyncio.run(read())
    assert listener.phases == ["n2: silent for 0.03 s; its logs may continue"]
