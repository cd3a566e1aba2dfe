"""Views of ranks and facts of hosts on the controller's clock, and the requests that they answer."""

import dataclasses

from pylaunch import protocol
from pylaunch.model.clock import ClockOffset
from pylaunch.runs.follow.rank_views import ViewRequest, host_evidence, rank_view

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
    request = ViewRequest(protocol.Examine(1), ("n1", "n2"))
    request.take("n1", dataclasses.replace(SEEN, rank=0), CLOCK)
    request.take("n1", dataclasses.replace(SEEN, rank=1, serial=7), CLOCK)
    request.take("n1", protocol.Examined(7, []), CLOCK)
    assert request.waiting == {"n1", "n2"}
    request.take("n1", protocol.Examined(1, [0]), CLOCK)
    request.waiting.discard("n2")
    assert request.waiting == set()
    assert [view.rank for view in request.sample.views] == [0]
