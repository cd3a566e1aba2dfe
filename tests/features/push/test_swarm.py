"""The choice of pieces and sources, with hosts that are slow, lost, or lie."""

import heapq
from collections.abc import Mapping

import pytest

from pylaunch.features.push.swarm import FETCHED, SENT_AHEAD, SERVED, SERVED_TO_ONE, WRONG, Fetch, Send, Swarm

UPLINK_S = 0.34
"""Time of one piece of 4 MiB at 100 Mbit/s, and at 1 Gbit/s between hosts."""

LINK_S = 0.034


class Simulation:
    """Hosts with one link each; the controller has one, too, and each host receives one transfer after the other."""

    def __init__(
        self,
        hosts: int,
        pieces: int,
        *,
        have: Mapping[str, list[int]] | None = None,
        liars: tuple[str, ...] = (),
        slow: Mapping[str, float] | None = None,
        unreachable: tuple[str, ...] = (),
    ) -> None:
        self.names = [f"n{number}" for number in range(1, hosts + 1)]
        self.swarm = Swarm(pieces, dict.fromkeys(self.names, ()))
        self.liars, self.slow, self.unreachable = liars, slow or {}, unreachable
        self.now = 0.0
        self.free = dict.fromkeys(["", *self.names], 0.0)
        """Time at which the link of each sender is free again."""

        self.events: list[tuple[float, int, Send | Fetch]] = []
        self.orders: list[Send | Fetch] = []
        self.ended: dict[str, float] = {}
        for name in self.names:
            self.swarm.join(name, (have or {}).get(name, []))

    def run(self, *, lost: Mapping[str, float] | None = None, until_s: float = 1000.0) -> float:
        """Return the time at which every host that is there has every piece."""
        losses = sorted((at, name) for name, at in (lost or {}).items())
        next_tick = 0.0
        while len(self.ended) < len(self.names) - len(lost or {}):
            self._obey()
            self._check()
            next_tick = max(next_tick, self.now + 0.5)
            at = min(self.events[0][0] if self.events else next_tick, next_tick)
            self.now = at
            assert at < until_s, f"no end: {self.ended}"
            while losses and losses[0][0] <= self.now:
                self.swarm.leave(losses.pop(0)[1])
            while self.events and self.events[0][0] <= self.now:
                self._happen(heapq.heappop(self.events)[2])
            next_tick = self.now
        return max(self.ended.values())

    def _obey(self) -> None:
        for order in self.swarm.orders(self.now):
            assert order.piece not in self.swarm._members[order.host].have
            self.orders.append(order)
            sender = order.source if isinstance(order, Fetch) else ""
            cost = UPLINK_S if isinstance(order, Send) else LINK_S
            cost *= max(self.slow.get(sender, 1.0), self.slow.get(order.host, 1.0))
            if self.slow.get(order.host, 1.0) > 1 or self.slow.get(sender, 1.0) > 1:
                end = self.now + cost  # It occupies no link of others.
            else:
                end = self.free[sender] = max(self.now, self.free[sender]) + cost
            heapq.heappush(self.events, (end, len(self.orders), order))

    def _check(self) -> None:
        """Assert what the docstring of Swarm promises."""
        swarm, members = self.swarm, self.swarm._members
        on_the_way = {(order.host, order.piece) for _, _, order in self.events if isinstance(order, Send)}
        for name, member in members.items():
            asked = [source for source, _ in member.fetching.values()]
            assert len(asked) <= FETCHED
            assert len(member.sending) <= SENT_AHEAD
            assert all(asked.count(source) <= SERVED_TO_ONE for source in asked)
            assert all(piece in members[source].have for piece, (source, _) in member.fetching.items())
            fetches = [source for each in members.values() for source, _ in each.fetching.values()]
            assert member.serving == fetches.count(name) <= SERVED
        for piece, holders in enumerate(swarm._holders):
            assert holders == {name for name, member in members.items() if piece in member.have}
            if not holders:
                is_coming = any((name, piece) in on_the_way for name in members)
                assert piece in swarm._unsent or is_coming, piece
                continue
            for name, member in members.items():
                waits = (*member.waiting, *member.have, *member.fetching, *member.direct)
                assert piece in waits or (name, piece) in on_the_way, (name, piece)

    def _happen(self, order: Send | Fetch) -> None:
        if order.host not in self.swarm._members:
            return
        if isinstance(order, Fetch):
            if order.source not in self.swarm._members or {order.host, order.source} & set(self.unreachable):
                self.swarm.failed(order.host, order.piece, order.source, "refused")
                return
            if order.source in self.liars:
                self.swarm.failed(order.host, order.piece, order.source, WRONG)
                return
        self.swarm.has(order.host, order.piece, self.now)
        if self.swarm.received(order.host) == self.swarm.pieces:
            self.ended.setdefault(order.host, self.now)


def test_each_piece_leaves_the_controller_once_and_many_hosts_are_as_fast_as_one() -> None:
    alone = Simulation(1, 50).run()
    for hosts in (3, 8, 16, 64):
        many = Simulation(hosts, 50)
        assert many.run() < 1.25 * alone, hosts
        assert many.swarm.sent == 50


def test_no_host_serves_more_than_a_few_at_a_time() -> None:
    swarm = Swarm(1, dict.fromkeys([f"n{number}" for number in range(20)], ()))
    swarm.join("n0", [0])
    for number in range(1, 20):
        swarm.join(f"n{number}", [])
    assert Fetch("n1", 0, "n0") in swarm.orders(0.0)
    assert len(swarm.orders(0.1)) == 0
    swarm.has("n1", 0, 0.2)
    assert {order.source for order in swarm.orders(0.2) if isinstance(order, Fetch)} == {"n0", "n1"}
    assert swarm._members["n1"].serving == SERVED


def test_pieces_that_a_host_has_already_are_fetched_from_there_and_not_sent() -> None:
    half = Simulation(3, 20, have={"n2": [*range(10)]})
    half.run()
    assert half.swarm.sent == 10
    assert not [order for order in half.orders if order.host == "n2" and order.piece < 10]


def test_a_close_host_is_asked_before_a_distant_one() -> None:
    swarm = Swarm(1, {"a1": ("r1",), "b1": ("r2",), "b2": ("r2",)})
    swarm.join("a1", [0])
    swarm.join("b1", [0])
    swarm.join("b2", [])
    assert swarm.orders(0.0) == [Fetch("b2", 0, "b1")]


def test_a_host_that_claims_everything_and_sends_wrong_bytes_costs_few_pieces_more() -> None:
    for hosts in (3, 8):
        lying = Simulation(hosts, 50, have={"n1": [*range(50)]}, liars=("n1",))
        lying.ended["n1"] = 0.0
        assert lying.run() < 1.5 * Simulation(1, 50).run()
        assert lying.swarm.sent <= 60
        assert set(lying.swarm.wrong) == {"n1"}


def test_a_liar_that_gets_pieces_as_all_others_do_is_no_seed_for_long() -> None:
    lying = Simulation(8, 50, liars=("n1",))
    assert lying.run() < 1.5 * Simulation(1, 50).run()
    assert lying.swarm.sent <= 60


def test_one_host_that_accuses_all_others_excludes_none_of_them() -> None:
    swarm = Swarm(4, dict.fromkeys(("n1", "n2", "n3"), ()))
    for name in ("n1", "n2", "n3"):
        swarm.join(name, [0] if name != "n1" else [])
    swarm.orders(0.0)
    for source in ("n2", "n3"):
        swarm._members["n1"].fetching[0] = (source, 0.0)
        swarm.failed("n1", 0, source, WRONG)
    swarm.has("n2", 1, 0.1)
    assert Fetch("n3", 1, "n2") in swarm.orders(0.2)


def test_hosts_that_reach_no_other_get_everything_from_the_controller() -> None:
    blocked = Simulation(4, 20, unreachable=("n4",))
    blocked.run()
    assert blocked.swarm.sent <= 2 * 20 + 12
    assert all(order.host == "n4" for order in blocked.orders[-1:])


def test_a_lost_host_takes_no_piece_with_it() -> None:
    several = Simulation(4, 50)
    assert several.run(lost={"n1": 2.0, "n3": 5.0}) < 1.5 * Simulation(1, 50).run()
    assert set(several.ended) == {"n2", "n4"}


def test_a_slow_host_delays_only_itself() -> None:
    mixed = Simulation(5, 50, slow={"n1": 100.0})
    mixed.run()
    others = [at for name, at in mixed.ended.items() if name != "n1"]
    assert max(others) < 1.5 * Simulation(1, 50).run()
    assert mixed.ended["n1"] > max(others)


def test_a_host_is_due_while_it_is_ordered_to_do_something_and_after_its_last_piece() -> None:
    swarm = Swarm(1, {"n1": (), "n2": ()})
    swarm.join("n1", [])
    assert not swarm.is_due("n1")
    assert swarm.orders(0.0) == [Send("n1", 0)]
    assert swarm.is_due("n1")
    swarm.join("n2", [])
    assert not swarm.is_due("n2")  # It waits for n1.
    swarm.has("n1", 0, 1.0)
    assert swarm.orders(1.0) == [Fetch("n2", 0, "n1")]
    assert swarm.is_due("n1")


@pytest.mark.parametrize("slowness", [300.0, 1e9])
def test_a_slow_host_that_has_everything_already_does_not_hold_up_the_others(slowness: float) -> None:
    simulation = Simulation(3, 50, have={"n1": [*range(50)]}, slow={"n1": slowness})
    simulation.ended["n1"] = 0.0
    assert simulation.run() < 2 * Simulation(3, 50).run()
    assert simulation.swarm.sent > 40


def test_hosts_that_cannot_reach_each_other_stop_to_try_and_get_everything_from_the_controller() -> None:
    names = tuple(f"n{number}" for number in range(1, 17))
    separated = Simulation(16, 10, unreachable=names)
    separated.run()
    assert separated.swarm.sent == 160
    tried = [order for order in separated.orders if isinstance(order, Fetch)]
    assert len(tried) < 64, "each takes seconds behind a firewall that drops packets"


def test_three_hosts_that_nobody_reaches_do_not_keep_the_others_from_each_other() -> None:
    seeds = Simulation(16, 50, have={"n16": [*range(49)]}, unreachable=("n1", "n2", "n3"))
    seeds.run()
    assert seeds.swarm.sent < 4 * 50
