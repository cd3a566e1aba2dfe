"""Views of ranks and facts of hosts on the controller's clock, and the requests that they answer."""

import asyncio
import dataclasses

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.stacks import ViewRequest, host_evidence, rank_view
from tests.unit.runs.messages import arrive, left

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
PLAN = plan_run(CLUSTER, JobSpec(("a",), Framework.COMMAND, "/"), "7f3a9c01")

CLOCK = ClockOffset(10.0, 0.002)
SEEN = protocol.RankView(3, "n7", 110.0, 0.0, 4711, "S", 2.5, "helper", serial=1)


def test_a_view_has_its_host_the_time_of_our_clock_and_its_uncertainty() -> None:
    view = rank_view("n2", SEEN, CLOCK)
    assert (view.rank, view.host, view.time, view.uncertainty_s, view.source) == (3, "n2", 100.0, 0.002, "helper")


def test_facts_have_their_host_the_times_of_our_clock_and_their_uncertainty() -> None:
    event = protocol.KernelEvent("link-down", 103.0, "eth0: Link down", "eth0")
    found = host_evidence("n2", protocol.HostEvidence("n7", 105.0, 0.0, (event,)), CLOCK)
    assert (found.host, found.time, found.uncertainty_s) == ("n2", 95.0, 0.002)
    assert [(each.kind, each.time, each.device) for each in found.kernel] == [("link-down", 93.0, "eth0")]


def test_a_request_is_answered_by_the_views_of_its_serial_until_every_host_has_sent_them() -> None:
    async def story() -> None:
        fleet = Fleet(PLAN, "0123")
        request = ViewRequest(fleet, protocol.Examine(1))
        with fleet.asking(["n1", "n2"], request):
            late = dataclasses.replace(SEEN, rank=1, serial=7)
            views = (dataclasses.replace(SEEN, rank=0), late, protocol.Examined(7), protocol.Stopping("x", 1.0))
            arrive(fleet, *(("n1", each) for each in views))
            assert request.waiting == {"n1", "n2"}, "a node that stops still sends the views"
            arrive(fleet, ("n1", protocol.Examined(1)), ("n2", protocol.Finished([])))
            await request.answered(60)
        assert request.waiting == set()
        assert [view.rank for view in request.sample.views] == [0]
        assert [message for _, message in await left(fleet)][:2] == [late, protocol.Examined(7)]

    asyncio.run(story())
