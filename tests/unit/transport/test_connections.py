"""Turns of SSH handshakes, by a clock and a set of open connections of the test."""

from pylaunch.transport.connections import COMMANDS, POLL_S, STALLED_S, Turns

SLOW_S = 2.0


class Machine:
    """Turns for two handshakes; the test sets the time and the connections that are open."""

    def __init__(self) -> None:
        self.now = 0.0
        self.opened: set[str] = set()
        self.turns = Turns(2, lambda: self.opened, slow_s=SLOW_S, clock=lambda: self.now)

    def open(self, identity: str) -> None:
        self.opened.add(identity)
        self.now += POLL_S


def test_few_handshakes_run_at_once_and_the_next_one_begins_when_one_has_ended() -> None:
    machine = Machine()
    first, second = machine.turns.take("a"), machine.turns.take("b")
    assert first is not None
    assert second is not None
    assert machine.turns.take("c") is None
    machine.turns.end(first)
    assert machine.turns.take("c") is not None
    assert machine.turns.take("d") is None


def test_a_handshake_is_over_when_its_connection_is_open_although_its_command_still_runs() -> None:
    machine = Machine()
    machine.turns.take("a")
    machine.turns.take("b")
    machine.open("b")
    assert machine.turns.take("c") is not None
    assert machine.turns.take("d") is None


def test_the_second_command_for_a_connection_waits_for_the_handshake_of_the_first() -> None:
    machine = Machine()
    first = machine.turns.take("a")
    assert first is not None
    assert machine.turns.take("a") is None
    machine.open("a")
    assert machine.turns.take("a") is not None


def test_hosts_that_do_not_answer_hold_up_the_others_for_a_moment_only() -> None:
    machine = Machine()
    machine.turns.take("dead")
    machine.turns.take("frozen")
    machine.now = SLOW_S - POLL_S
    assert machine.turns.take("c") is None
    machine.now = SLOW_S
    assert machine.turns.take("c") is not None
    assert machine.turns.take("d") is not None
    assert machine.turns.take("e") is None


def test_commands_over_open_connections_begin_a_few_at_a_time_and_slow_ones_hold_up_no_other() -> None:
    machine = Machine()
    machine.open("a")
    first = machine.turns.take("a")
    assert first is not None
    assert all(machine.turns.take(None) is not None for _ in range(COMMANDS - 1))
    assert machine.turns.take("a") is None
    machine.turns.end(first)
    assert machine.turns.take("a") is not None
    assert machine.turns.take(None) is None
    machine.now += STALLED_S
    assert machine.turns.take(None) is not None
