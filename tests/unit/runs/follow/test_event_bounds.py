"""A node can fill neither the record nor the terminal with events."""

import pytest

from pylaunch.model.run import Event, EventKind
from pylaunch.runs.follow.event_bounds import MOST_CONTACTS, MOST_HANGS, EventBounds


def admitted(events: list[Event]) -> tuple[list[Event], list[str]]:
    bounds = EventBounds()
    found, notices = [], []
    for event in events:
        if bounds.admits(event):
            found.append(event)
        elif notice := bounds.notice(event):
            notices.append(notice)
    return found, notices


def test_each_rank_starts_once_and_ends_once() -> None:
    events = [
        Event(float(number), kind, "n1", rank, f"pid {number}")
        for number in range(500)
        for rank in (0, 1)
        for kind in (EventKind.RANK_STARTED, EventKind.RANK_ENDED)
    ]
    found, notices = admitted(events)
    assert found == events[:4]
    assert notices == []


def test_contact_to_a_node_is_bounded_for_itself_alone() -> None:
    flapping = [Event(1.0, EventKind.CONTACT_LOST, "n1", text="x")] * (3 * MOST_CONTACTS)
    other = Event(1.0, EventKind.CONTACT_LOST, "n2", text="x")
    found, notices = admitted([*flapping, other])
    assert len(found) == MOST_CONTACTS + 1
    assert found[-1] == other
    assert notices == [f"note: {MOST_CONTACTS} events contact_lost of n1 are recorded; further ones are not"]


@pytest.mark.parametrize("kind", [EventKind.HANG, EventKind.ADVANCING])
def test_hangs_that_come_and_go_are_bounded(kind: EventKind) -> None:
    found, notices = admitted([Event(1.0, kind)] * (2 * MOST_HANGS))
    assert len(found) == MOST_HANGS
    assert len(notices) == 1


def test_the_end_and_the_stop_of_a_run_are_always_recorded() -> None:
    events = [Event(float(number), EventKind.STOP_ASKED) for number in range(1000)]
    events.append(Event(1.0, EventKind.ENDED))
    assert admitted(events)[0] == events


def test_each_pair_of_agents_that_do_not_hear_each_other_counts_once() -> None:
    bounds = EventBounds()
    assert bounds.new_unheard("n1", ["n3", "n2", "n2"]) == ["n2", "n3"]
    assert bounds.new_unheard("n1", ["n2"]) == []
    assert bounds.new_unheard("n1", ["n2", "n4"]) == ["n4"]
    assert bounds.new_unheard("n2", ["n1"]) == ["n1"]
    assert bounds.new_unheard("n2", []) == []
