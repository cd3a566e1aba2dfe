"""Signals at the end of a wait of the agent's loop."""

import select
import signal
from collections.abc import Iterator

import pytest

from pylaunch.agent.shared.event_loop import EventLoop

WAIT_S = 0.05


@pytest.fixture
def loop() -> Iterator[tuple[EventLoop, set[int]]]:
    """A loop, and the signals that it has learned of; one in its next wait holds up the process past the deadline."""
    loop, arrived = EventLoop(), set[int]()
    loop.watch_signals(set(), arrived.update)
    before = signal.signal(signal.SIGALRM, lambda *_: select.select([], [], [], WAIT_S))
    signal.setitimer(signal.ITIMER_REAL, WAIT_S / 2)
    yield loop, arrived
    signal.setitimer(signal.ITIMER_REAL, 0)  # It may not have ended yet, and would end as the limit of this test.
    signal.signal(signal.SIGALRM, before)
    signal.set_wakeup_fd(-1)


def test_a_process_that_was_held_up_past_the_deadline_learns_of_signals_first(
    loop: tuple[EventLoop, set[int]],
) -> None:
    watched, arrived = loop
    watched.wait(WAIT_S)
    assert arrived == {signal.SIGALRM}


def test_signals_can_be_looked_at_between_two_waits_which_then_find_none(loop: tuple[EventLoop, set[int]]) -> None:
    watched, arrived = loop
    watched.look_at_signals()
    assert arrived == set()
    signal.raise_signal(signal.SIGALRM)
    watched.look_at_signals()
    assert arrived == {signal.SIGALRM}
    arrived.clear()
    watched.look_at_signals()
    watched.wait(0.0)
    assert arrived == set()
