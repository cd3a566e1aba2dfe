"""Decide which host gets which piece from where. Pure: the caller reports what happened and carries out the orders.

A piece that no host has is sent once by the controller, to one of a few hosts. Every other host fetches it from a host
that has it, the least doubted, closest and least busy first. A host no longer asks a peer that sent it wrong bytes, or
failed twice in a row; a piece that it can get from no peer is sent by the controller. Transfers that take much longer
than others are repeated from elsewhere. Reports are claims: no host is believed that another one has a piece, and a
doubt of one host delays another one and excludes it for nobody else.
"""

import statistics
from collections import deque
from collections.abc import Mapping, Sequence

from pylaunch.base.dataclass import dataclass, field

SEEDS = 3
"""Hosts to which the controller sends, at the same time, pieces that no host has."""

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

FAILURES = 2
"""Failed and overdue fetches in a row after which a host asks a peer no more."""

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

    direct: dict[int, None] = field(default_factory=dict)
    """Pieces that it can get from the controller alone, in order."""

    sending: dict[int, float] = field(default_factory=dict)
    """Pieces that the controller sends → time of the order."""

    fetching: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Pieces → source, and time of the order."""

    failures: dict[str, int] = field(default_factory=dict)
    """Source → fetches that failed or were overdue since the last one that ended; FAILURES for good."""

    patience: float = 1.0
    """Factor of the time after which its fetches are overdue: it may be slow itself."""

    serving: int = 0
    doubts: int = 0
    """Transfers to or from it that failed or were overdue: others come first as seeds and sources."""

    is_seed: bool = False
    """It has got pieces from the controller."""


class Swarm:
    """State of one push.

    After each call, and checked after each step of the simulation in tests/features/push/test_swarm.py:

    1. `_holders[piece]` are the members that reported the piece, and no others: a fetch names one of them.
    2. `serving` of a member is the number of fetches from it, at most SERVED. A member has at most FETCHED fetches, at
       most SERVED_TO_ONE from one source, and at most SENT_AHEAD sends.
    3. Nothing is ordered for a host that has it.
    4. No piece is forgotten. If somebody has it, each member without it waits for it, fetches it, or gets it from the
       controller now or next. If nobody has it, it is unsent or on its way from the controller. An overdue send is
       ordered again from elsewhere and still counts as on its way: its bytes arrive, or fail.
    5. What one member reports of another one changes whom it asks itself, and for the others only an order of choice.
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
        """Pieces that nobody has, and that are not on the way; others are skipped."""

        self._send_times: deque[float] = deque(maxlen=32)
        self._fetch_times: deque[float] = deque(maxlen=64)

    def join(self, host: str, have: Sequence[int]) -> None:
        """Add a host that has some pieces."""
        there = (piece for piece, holders in enumerate(self._holders) if holders)
        self._members[host] = _Member(host, self._topologies[host], waiting=deque(there))
        for piece in have:
            self.has(host, piece, 0)

    def has(self, host: str, piece: int, now: float) -> None:
        """Record that `host` reports a piece."""
        member = self._members[host]
        since, fetch = member.sending.pop(piece, None), self._end_fetch(member, piece)
        if piece in member.have:
            return
        member.have.add(piece)
        if since is not None:
            self._send_times.append(now - since)
        if fetch is not None:
            self._fetch_times.append(now - fetch[1])
            member.failures.pop(fetch[0], None)
        if not self._holders[piece]:
            for other in self._members.values():
                if piece not in other.have:
                    other.waiting.append(piece)
        self._holders[piece].add(host)

    def failed(self, host: str, piece: int, source: str, why: str) -> None:
        """Record that `host` did not get a piece from `source`."""
        member = self._members[host]
        if member.fetching.get(piece, ("",))[0] == source:
            self._fail(member, piece, FAILURES if why == WRONG else 1)
            if why == WRONG:
                self.wrong.setdefault(source, set()).add(host)

    def leave(self, host: str) -> None:
        """Remove a host that is lost."""
        member = self._members.pop(host, None)
        if member is None:
            return
        for piece in [*member.fetching]:
            self._end_fetch(member, piece)
        for piece in member.have | set(member.sending):
            self._holders[piece].discard(host)
            if not self._holders[piece] and not self._is_sent(piece):
                self._unsent.append(piece)
        for other in self._members.values():
            for piece, (source, _) in [*other.fetching.items()]:
                if source == host:
                    del other.fetching[piece]
                    other.waiting.append(piece)

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
        is_separated = self._is_separated()
        found: list[Send | Fetch] = []
        for member in self._members.values():
            found += self._fetches(member, now, is_separated=is_separated)
        while (seed := self._seed()) is not None:
            piece = next(iter(seed.direct)) if seed.direct else self._unsent.popleft()
            seed.direct.pop(piece, None)
            if piece not in seed.have and piece not in seed.sending:
                seed.sending[piece] = now
                seed.is_seed = True
                self.sent += 1
                found.append(Send(seed.name, piece))
        return found

    def _fetches(self, member: _Member, now: float, *, is_separated: bool) -> list[Fetch]:
        found: list[Fetch] = []
        for _ in range(min(len(member.waiting), TRIED)):
            if len(member.fetching) >= FETCHED:
                break
            piece = member.waiting.popleft()
            if piece in member.have or piece in member.fetching or piece in member.sending:
                continue
            if not self._holders[piece]:  # They are lost, and it is unsent again.
                continue
            asked = [source for source, _ in member.fetching.values()]
            permitted = [] if is_separated else [each for each in self._holders[piece] if self._may_ask(member, each)]
            free = [
                each
                for each in (self._members[name] for name in permitted)
                if each.serving < SERVED and asked.count(each.name) < SERVED_TO_ONE
            ]
            if free:
                source = min(free, key=lambda each: _preference(each, member))
                source.serving += 1
                member.fetching[piece] = source.name, now
                found.append(Fetch(member.name, piece, source.name))
            elif permitted or (not is_separated and self._is_coming(member, piece)):
                member.waiting.append(piece)
            else:
                member.direct[piece] = None
        return found

    def _may_ask(self, member: _Member, source: str) -> bool:
        return source != member.name and member.failures.get(source, 0) < FAILURES

    def _is_coming(self, member: _Member, piece: int) -> bool:
        """Return whether a host that `member` may ask gets the piece from the controller, now or next."""
        return any(
            (piece in each.sending or piece in each.direct) and self._may_ask(member, each.name)
            for each in self._members.values()
        )

    def _is_separated(self) -> bool:
        """Return whether no host seems to reach another one."""
        if self._fetch_times:
            return False
        failed = [
            (member.name, source)
            for member in self._members.values()
            for source, count in member.failures.items()
            if count >= FAILURES
        ]
        return all(len({pair[side] for pair in failed}) >= SEPARATED for side in (0, 1))

    def _seed(self) -> _Member | None:
        """Return the host that gets the next piece from the controller; None when enough are on the way."""
        able = [each for each in self._members.values() if len(each.sending) < SENT_AHEAD]
        if alone := [each for each in able if each.direct]:
            return min(alone, key=lambda each: len(each.sending))
        while self._unsent and (self._holders[self._unsent[0]] or self._is_sent(self._unsent[0])):
            self._unsent.popleft()
        if not self._unsent:
            return None
        least = min((each.doubts for each in self._members.values()), default=0)
        able = [each for each in able if each.doubts == least]
        if sum(1 for each in self._members.values() if each.sending and each.doubts == least) >= SEEDS:
            able = [each for each in able if each.sending]
        return min(able, key=lambda each: (len(each.sending), not each.is_seed), default=None)

    def _is_sent(self, piece: int) -> bool:
        return any(piece in member.sending for member in self._members.values())

    def _repeat_overdue(self, now: float) -> None:
        """Let pieces that take long come from elsewhere, too; the first copy counts."""
        limit_s = _limit(self._send_times, float("inf"))
        for member in self._members.values():
            late = [piece for piece, since in member.sending.items() if now - since > limit_s]
            if late and any(each is not member and not each.sending for each in self._members.values()):
                member.doubts += 1
                for piece in late:
                    del member.sending[piece]
                    if self._holders[piece]:
                        member.waiting.append(piece)
                    else:
                        self._unsent.appendleft(piece)
        limit_s = _limit(self._fetch_times, FIRST_FETCH_S)
        for member in self._members.values():
            limit = limit_s * member.patience
            late = [piece for piece, (_, since) in member.fetching.items() if now - since > limit]
            for piece in late:
                self._fail(member, piece, 1)
            member.patience *= 2 if late else 1

    def _fail(self, member: _Member, piece: int, count: int) -> None:
        """End a fetch that failed or is overdue."""
        source, _ = member.fetching[piece]
        self._end_fetch(member, piece)
        member.waiting.append(piece)
        member.failures[source] = min(FAILURES, member.failures.get(source, 0) + count)
        if source in self._members:
            self._members[source].doubts += 1

    def _end_fetch(self, member: _Member, piece: int) -> tuple[str, float] | None:
        """End the fetch of a piece, if there is one."""
        found = member.fetching.pop(piece, None)
        if found is not None and found[0] in self._members:
            self._members[found[0]].serving -= 1
        return found


def _limit(times: Sequence[float], unknown_s: float) -> float:
    """Return the seconds after which a transfer is overdue; `unknown_s` while no time is known."""
    return max(OVERDUE_S, OVERDUE * statistics.median(times)) if times else unknown_s


def _preference(source: _Member, member: _Member) -> tuple[int, int, int, int, str]:
    """Return the place of a source among those that a host may ask, the smallest first."""
    return member.failures.get(source.name, 0), source.doubts, -_common(source, member), source.serving, source.name


def _common(one: _Member, other: _Member) -> int:
    """Return how many parts of the network two hosts share, from the outside in."""
    count = 0
    for mine, its in zip(one.topology, other.topology, strict=False):
        if mine != its:
            break
        count += 1
    return count
