"""Decide which host gets which piece from where. Pure: the caller reports what happened and carries out the orders.

A piece that no host has is sent once by the controller, to one of a few hosts. Every other host fetches it from a host
that has it, the closest and least busy first. A host fetches nothing from a peer that sent wrong bytes, or failed
twice; a piece that it can get from nobody is sent by the controller. Transfers that take much longer than others are
repeated from elsewhere. Reports are claims: no host is believed that another one has a piece, and one host alone cannot
exclude another one for all.
"""

import statistics
from collections import deque
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field

SEEDS = 3
"""Hosts to which the controller sends at the same time."""

SENT_AHEAD = 2
"""Pieces that are on the way from the controller to one host."""

FETCHED = 8
"""Pieces that one host was ordered to fetch and does not have yet."""

SERVED = 4
SERVED_TO_ONE = 2
"""Pieces that are fetched from one host at the same time, by all hosts and by one, which may have stopped."""

TRIED = 16
"""Waiting pieces of a host that are looked at for one order."""

OVERDUE_S = 3.0
OVERDUE = 4.0
"""A transfer that takes OVERDUE times as long as most, and at least OVERDUE_S, is repeated."""

FIRST_FETCH_S = 5.0
"""A fetch is overdue after this while none has ended: a host that has stopped must not keep others waiting."""

MOST_LATE = 2
"""Overdue fetches in a row after which a host gets what only this source has from the controller."""

SEPARATED = 3
"""Hosts that got nothing from as many sources, while no host has got anything from another one: probably a firewall is
between all of them, and each further attempt would cost seconds, so the controller sends everything."""

WRONG = "wrong"
"""Reason of a host for bytes that have not the hash of their piece."""


@dataclass(frozen=True)
class Send:
    """The controller sends `piece` to `host`."""

    host: str
    piece: int


@dataclass(frozen=True)
class Fetch:
    """`host` fetches `piece` from `source`."""

    host: str
    piece: int
    source: str


@dataclass
class _Member:
    name: str
    topology: tuple[str, ...]
    have: set[int] = field(default_factory=set)
    waiting: deque[int] = field(default_factory=deque)
    """Pieces that another host has, and this one lacks."""

    sending: dict[int, float] = field(default_factory=dict)
    """Pieces that the controller sends → time of the order."""

    fetching: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Pieces → source, and time of the order."""

    failures: dict[str, int] = field(default_factory=dict)
    """Source → pieces that it did not send."""

    tries: dict[int, int] = field(default_factory=dict)
    """Pieces whose fetch was overdue → how often."""

    late: dict[str, int] = field(default_factory=dict)
    """Source → fetches that were overdue since the last one that ended."""

    serving: int = 0
    slow_to_serve: int = 0
    slow_to_receive: int = 0
    """Transfers that were overdue, or failed on their way from the controller."""

    served: set[str] = field(default_factory=set)
    """Hosts that fetched from here."""

    accused_by: set[str] = field(default_factory=set)
    is_direct: bool = False
    """It has got pieces from the controller."""


class Swarm:
    """State of one broadcast.

    After each call, and checked after each step of the simulation in tests/unit/broadcast/test_swarm.py:

    1. `_holders[piece]` are the members that reported the piece, and no others: a fetch names one of them.
    2. `serving` of a member is the number of fetches from it, at most SERVED. A member has at most FETCHED fetches, at
       most SERVED_TO_ONE from one source, and at most SENT_AHEAD sends.
    3. Nothing is ordered for a host that has it.
    4. No piece is forgotten. If somebody has it, each member without it waits for it, fetches it, is parked for it, or
       gets it from the controller now or next. If nobody has it, it is unsent or on its way from the controller. An
       overdue send is ordered again from elsewhere and still counts as on its way: its bytes arrive, or fail.
    5. One host cannot exclude another one for all: `_is_excluded` needs two accusers, and more than were served.
    """

    def __init__(self, pieces: int, topologies: Mapping[str, tuple[str, ...]]) -> None:
        self.pieces = pieces
        self.wrong: dict[str, set[str]] = {}
        """Host → hosts that report wrong bytes from it."""

        self.sent = 0
        """Pieces that the controller was ordered to send."""

        self._topologies = topologies
        self._members: dict[str, _Member] = {}
        self._holders: list[set[str]] = [set() for _ in range(pieces)]
        self._unsent = deque(range(pieces))
        """Pieces that nobody has, and that are not on the way."""

        self._direct: dict[str, dict[int, None]] = {}
        """Hosts, and pieces that they can get from the controller alone, in order."""

        self._parked: dict[int, set[str]] = {}
        """Pieces → hosts that wait for another host to get one, because they may not ask those that have it."""

        self._failed: set[tuple[str, str]] = set()
        """Hosts that no longer ask a source, with that source."""

        self._send_times: deque[float] = deque(maxlen=32)
        self._fetch_times: deque[float] = deque(maxlen=64)

    def join(self, host: str, have: Sequence[int]) -> None:
        """Add a host that has some pieces."""
        member = _Member(host, self._topologies[host])
        self._members[host] = member
        for piece, holders in enumerate(self._holders):
            if holders:
                member.waiting.append(piece)
        for piece in have:
            self.has(host, piece, 0)

    def has(self, host: str, piece: int, now: float) -> None:
        """Record that `host` reports a piece."""
        member = self._members[host]
        if (since := member.sending.pop(piece, None)) is not None and piece not in member.have:
            self._send_times.append(now - since)
        if (fetch := self._fetched(member, piece)) is not None and piece not in member.have:
            self._fetch_times.append(now - fetch[1])
            member.late.pop(fetch[0], None)
            if fetch[0] in self._members:
                self._members[fetch[0]].served.add(host)
        if piece in member.have:
            return
        member.have.add(piece)
        is_first = not self._holders[piece]
        self._holders[piece].add(host)
        parked = self._parked.pop(piece, set())
        for other in self._members.values() if is_first else [self._members[each] for each in parked]:
            if piece not in other.have:
                other.waiting.append(piece)

    def failed(self, host: str, piece: int, source: str, why: str) -> None:
        """Record that `host` did not get a piece from `source`; "" is the controller."""
        member = self._members[host]
        if not source:
            member.sending.pop(piece, None)
            member.slow_to_receive += 1
            if self._holders[piece]:
                member.waiting.append(piece)
            elif not self._is_sent(piece):
                self._unsent.appendleft(piece)
            return
        if member.fetching.get(piece, ("",))[0] != source:
            return
        self._fetched(member, piece)
        if piece not in member.have:
            member.waiting.append(piece)
        if source not in self._members:
            return
        member.failures[source] = member.failures.get(source, 0) + (2 if why == WRONG else 1)
        if why == WRONG:
            self.wrong.setdefault(source, set()).add(host)
        if member.failures[source] > 1:
            self._members[source].accused_by.add(host)
            self._failed.add((host, source))

    def leave(self, host: str) -> None:
        """Remove a host that is lost."""
        member = self._members.pop(host, None)
        self._direct.pop(host, None)
        if member is None:
            return
        for piece in [*member.fetching]:
            self._fetched(member, piece)
        for piece in member.have | set(member.sending):
            self._holders[piece].discard(host)
            if not self._holders[piece] and not self._is_sent(piece):
                self._unsent.append(piece)
        for other in self._members.values():
            for piece, (source, _) in [*other.fetching.items()]:
                if source == host:
                    del other.fetching[piece]
                    other.waiting.append(piece)
        parked, self._parked = self._parked, {}
        for piece, names in parked.items():
            for name in names - {host}:
                self._members[name].waiting.append(piece)

    def received(self, host: str) -> int:
        """Return the number of pieces that `host` reports."""
        return len(self._members[host].have) if host in self._members else 0

    def is_due(self, host: str) -> bool:
        """Return whether `host` is expected to report something: a piece, or the end after its last piece."""
        member = self._members.get(host)
        return member is not None and bool(member.sending or member.fetching or len(member.have) == self.pieces)

    def orders(self, now: float) -> list[Send | Fetch]:
        """Return what to do next."""
        self._repeat_overdue(now)
        found: list[Send | Fetch] = []
        for member in self._members.values():
            found += self._fetches(member, now)
        return found + self._sends(now)

    def _fetches(self, member: _Member, now: float) -> list[Fetch]:
        found: list[Fetch] = []
        for _ in range(min(len(member.waiting), TRIED)):
            if len(member.fetching) >= FETCHED:
                break
            piece = member.waiting.popleft()
            if piece in member.have or piece in member.fetching or piece in member.sending:
                continue
            permitted = [self._members[each] for each in self._holders[piece] if self._is_permitted(member, each)]
            if not permitted or (len(permitted) == 1 and member.late.get(permitted[0].name, 0) >= MOST_LATE):
                self._give_up_on_peers(member, piece)
                continue
            asked = [source for source, _ in member.fetching.values()]
            free = [
                each for each in permitted if each.serving < SERVED and asked.count(each.name) < SERVED_TO_ONE
            ]  # fmt: skip
            if not free:
                member.waiting.append(piece)
                continue
            late = member.late
            source = min(
                free,
                key=lambda each: (
                    late.get(each.name, 0), each.slow_to_serve, -_common(each, member), each.serving, each.name,
                ),
            )  # fmt: skip
            source.serving += 1
            member.fetching[piece] = source.name, now
            found.append(Fetch(member.name, piece, source.name))
        return found

    def _give_up_on_peers(self, member: _Member, piece: int) -> None:
        """Wait for the next host that gets a piece; if none is about to, the controller sends it to this host."""
        coming = {each.name for each in self._members.values() if piece in each.sending}
        coming |= {host for host, its in self._direct.items() if piece in its}
        if any(self._is_permitted(member, each) for each in coming):
            self._parked.setdefault(piece, set()).add(member.name)
        elif self._holders[piece]:
            self._direct.setdefault(member.name, {})[piece] = None

    def _is_permitted(self, member: _Member, source: str) -> bool:
        is_tried = source == member.name or member.failures.get(source, 0) > 1
        return not is_tried and not self._are_separated() and not self._is_excluded(source)

    def _are_separated(self) -> bool:
        """Return whether no host seems to reach another one."""
        if self._fetch_times or len(self._failed) < SEPARATED:
            return False
        return all(len({pair[side] for pair in self._failed}) >= SEPARATED for side in (0, 1))

    def _is_excluded(self, source: str) -> bool:
        """Return whether two hosts that got pieces from others got none from `source`, and more than got some."""
        member = self._members[source]
        if len(member.accused_by) < 2:
            return False
        known = {each for each in member.accused_by if any(each in other.served for other in self._members.values())}
        return len(known) > 1 and len(known) > len(member.served - known)

    def _sends(self, now: float) -> list[Send]:
        found: list[Send] = []
        while (member := self._seed()) is not None:
            piece = self._next_for(member)
            if piece is None:
                break
            member.sending[piece] = now
            member.is_direct = True
            self.sent += 1
            found.append(Send(member.name, piece))
        return found

    def _seed(self) -> _Member | None:
        """Return the host that gets the next piece from the controller; None when enough are on the way."""
        direct = {host for host, its in self._direct.items() if its}
        able = [
            member
            for member in self._members.values()
            if len(member.sending) < SENT_AHEAD and (member.name in direct or self._lacks_unsent(member))
        ]
        best = min((_doubts(each) for each in self._members.values()), default=0)
        able = [each for each in able if each.name in direct or _doubts(each) == best]
        if sum(1 for each in self._members.values() if each.sending and _doubts(each) == best) >= SEEDS:
            able = [each for each in able if each.sending]
        return min(able, key=lambda each: (len(each.sending), not each.is_direct), default=None)

    def _lacks_unsent(self, member: _Member) -> bool:
        while self._unsent and (self._holders[self._unsent[0]] or self._is_sent(self._unsent[0])):
            self._unsent.popleft()
        return bool(self._unsent) and len(member.have) + len(member.sending) < self.pieces

    def _is_sent(self, piece: int) -> bool:
        return any(piece in member.sending for member in self._members.values())

    def _next_for(self, member: _Member) -> int | None:
        mine = self._direct.get(member.name, {})
        while mine:
            piece = next(iter(mine))
            del mine[piece]
            if piece not in member.have and piece not in member.sending:
                return piece
        return self._unsent.popleft() if self._lacks_unsent(member) else None

    def _repeat_overdue(self, now: float) -> None:
        """Let pieces that take long come from elsewhere, too; the first copy counts."""
        limit_s = _limit(self._send_times, float("inf"))
        for member in self._members.values():
            late = [piece for piece, since in member.sending.items() if now - since > limit_s]
            if late and any(each is not member and not each.sending for each in self._members.values()):
                member.slow_to_receive += 1
                for piece in late:
                    del member.sending[piece]
                    if not self._holders[piece]:
                        self._unsent.appendleft(piece)
        limit_s = _limit(self._fetch_times, FIRST_FETCH_S)
        for member in self._members.values():
            late = [
                piece
                for piece, (_, since) in member.fetching.items()
                if now - since > limit_s * 2 ** member.tries.get(piece, 0)
            ]
            slow = {member.fetching[piece][0] for piece in late}
            if len(slow) == 1 and {source for source, _ in member.fetching.values()} - slow:
                self._members[slow.pop()].slow_to_serve += 1  # Not if several are late: this host is slow itself.
            for piece in late:
                source = member.fetching[piece][0]
                member.late[source] = member.late.get(source, 0) + 1
                self._fetched(member, piece)
                member.tries[piece] = member.tries.get(piece, 0) + 1
                member.waiting.append(piece)

    def _fetched(self, member: _Member, piece: int) -> tuple[str, float] | None:
        """End the fetch of a piece, if there is one."""
        found = member.fetching.pop(piece, None)
        if found is not None and found[0] in self._members:
            self._members[found[0]].serving -= 1
        return found


def _limit(times: Sequence[float], unknown_s: float) -> float:
    """Return the seconds after which a transfer is overdue; `unknown_s` while no time is known."""
    return max(OVERDUE_S, OVERDUE * statistics.median(times)) if times else unknown_s


def _doubts(member: _Member) -> int:
    """Return how much speaks against sending a piece to this host for others."""
    return member.slow_to_receive + len(member.accused_by)


def _common(one: _Member, other: _Member) -> int:
    """Return how many parts of the network two hosts share, from the outside in."""
    count = 0
    for mine, its in zip(one.topology, other.topology, strict=False):
        if mine != its:
            break
        count += 1
    return count
