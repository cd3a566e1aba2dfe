"""Views of ranks as the controller decodes them."""

from __future__ import annotations

import dataclasses

from pylaunch import protocol
from pylaunch.launch.follow.rank_views import ViewRequest, rank_view
from pylaunch.model.clock import ClockOffset
from pylaunch.model.rank_view import Collective, Frame, ThreadStack
from pylaunch.protocol import examination as bounds

CLOCK = ClockOffset(10.0, 0.002)
SEEN = protocol.RankExamined(
    3, 1, 110.0, 4711, "S", 2.5, "helper", "",
    [protocol.ExaminedFrame("f", "p.py", 1), protocol.ExaminedFrame("g", "p.py", 2)],
    [protocol.ExaminedThread("MainThread", is_main=True, frames=[0, 1])], [protocol.ExaminedGroup("0", "", [0, 3])],
    [protocol.ExaminedCollective("0", 4, "all_reduce", [[2, 3]], [[2, 3]], ["Float"], is_retired=False, call_site=[1])],
)  # fmt: skip


def test_a_view_has_the_time_of_our_clock_and_its_uncertainty() -> None:
    view = rank_view("n2", SEEN, CLOCK)
    assert (view.rank, view.host, view.time, view.uncertainty_s, view.source) == (3, "n2", 100.0, 0.002, "helper")
    frames = (Frame("f", "p.py", 1), Frame("g", "p.py", 2))
    assert view.threads == (ThreadStack("MainThread", is_main=True, frames=frames),)
    assert view.collectives == (
        Collective(
            "0", 4, "all_reduce", ((2, 3),), ((2, 3),), ("Float",), is_retired=False, call_site=(Frame("g", "p.py", 2),)
        ),
    )


def test_what_a_node_invents_is_cut_or_omitted() -> None:
    thread = protocol.ExaminedThread("t" * 1000, is_main=True, frames=[-1, 7, 0, *[1] * 1000])
    seen = dataclasses.replace(SEEN, threads=[thread] * 1000, source="a friend", state="Sleeping")
    view = rank_view("n2", seen, CLOCK)
    assert (view.source, view.state) == ("", "S")
    assert len(view.threads) == bounds.MOST_THREADS
    assert len(view.threads[0].name) == bounds.LONGEST_TEXT
    assert len(view.threads[0].frames) < bounds.MOST_STACK_FRAMES


def test_children_have_their_stacks_and_are_bounded() -> None:
    thread = protocol.ExaminedThread("MainThread", is_main=True, frames=[1])
    child = protocol.ExaminedChild(12, "c" * 1000, "Sleeping", 0.5, ["futex"] * 100, [thread] * 100, "n" * 1000)
    view = rank_view("n2", dataclasses.replace(SEEN, children=[child] * 100, child_count=200), CLOCK)
    assert (len(view.children), view.child_count) == (bounds.MOST_CHILDREN, 200)
    first = view.children[0]
    assert (len(first.name), first.state, len(first.note)) == (bounds.LONGEST_TEXT, "S", bounds.LONGEST_TEXT)
    assert (len(first.waits), len(first.threads)) == (bounds.MOST_WAITS, bounds.MOST_CHILD_THREADS)
    assert first.threads[0].frames == (Frame("g", "p.py", 2),)


def test_a_request_is_answered_by_the_views_of_its_serial_until_every_host_has_sent_them() -> None:
    request = ViewRequest(protocol.Examine(1), ("n1", "n2"))
    request.take("n1", dataclasses.replace(SEEN, rank=0), CLOCK)
    request.take("n1", dataclasses.replace(SEEN, rank=1, serial=7), CLOCK)
    request.take("n1", protocol.Examined(7, []), CLOCK)
    assert request.waiting == {"n1", "n2"}
    request.take("n1", protocol.Examined(1, [0]), CLOCK)
    request.without("n2")
    assert request.waiting == set()
    assert [view.rank for view in request.views] == [0]
