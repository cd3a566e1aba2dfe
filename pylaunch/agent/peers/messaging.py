"""The agents of one run tell each other how they stand, so that a failure reaches every node without a controller.

Each agent listens on a TCP port of its own and is told the others' at the release. It greets all of them once, and
exchanges a word a second with its neighbours. An agent that begins to stop, for whatever reason, tells everybody until
everybody has answered. One whose run is over says so to its neighbours, which then do not take its silence for a loss.

A connection on which a word is not answered in time is given up and opened anew, because TCP itself waits longer and
longer between its tries. A node that was never heard is no lost node: something between us and it blocks the port.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Callable

from pylaunch.agent import wire
from pylaunch.agent.peers import neighbours, seal
from pylaunch.agent.peers.heartbeats import Heartbeats
from pylaunch.agent.wire.lines import Lines
from pylaunch.agent.wire.loop import Loop

BEAT_S = 1.0
URGENT_S = 0.2
"""Between two words while something must be told, and while the nodes greet each other."""

ANSWER_S = 2.0
GREETING_S = 3.0
FAREWELL_S = 3.0
"""How long an agent whose run is over waits for its neighbours' answers."""

OUTGOING = 128
INCOMING = 256
"""Connections at a time; who must wait comes a moment later."""


@dataclass
class Peer:
    """Another node of the run, as far as it is known."""

    name: str
    family: socket.AddressFamily
    address: tuple[str, int]
    link: Lines | None = None
    asked: float | None = None
    """When the oldest word was said that it has not answered."""

    heard: dict[bool, int] = field(default_factory=dict)
    """Serial numbers of its last answer (True) and of the last word that it said of itself (False)."""

    answered: int = 0
    """Serial number of the last word of ours that it answered."""

    is_stopping: bool = False
    is_over: bool = False


class Peers:
    """The other agents of this run."""

    def __init__(
        self, loop: Loop, me: str, addresses: dict[str, str], on_stop: Callable[[seal.PeerStatus], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._loop = loop
        self._clock = clock
        self._me = me
        self._places = neighbours.look_up({name: at for name, at in addresses.items() if name != me})
        self._names = list(addresses)
        self._neighbours = neighbours.neighbours(me, self._names)
        self._on_stop = on_stop
        self._listener = neighbours.listen() if len(addresses) > 1 else None
        self._is_listening = False
        self._key = b""
        self._peers: dict[str, Peer] = {}
        self._incoming: list[Lines] = []
        self._vigil = Heartbeats([], 0.0)
        self._serial = 0
        self._news = 0
        """Serial number from which on our words carry our last news."""

        self._stop: tuple[str, float, bool] | None = None
        """Why we stop, when KILL is due, and whether a person asked for it."""

        self._is_over = False
        self._next = 0.0
        self._greet_until = 0.0
        self._give_up_at: float | None = None

    @property
    def port(self) -> int:
        """Where we listen; 0 when there is nobody else."""
        return self._listener.getsockname()[1] if self._listener is not None else 0

    def try_all(self, ports: dict[str, int]) -> dict[str, str]:
        """How a connection to each of these hosts ends; {} once the run is released.

        Others try us at the same time: until the release, a connection of theirs is accepted and closed.
        """
        if self._listener is None or self._key:
            return {}
        self._watch_listener(self._turn_away)
        targets = {name: (*self._places[name], port) for name, port in ports.items() if name in self._places}
        ends = neighbours.try_connections(targets, self._turn_away, self._listener)
        return {name: ends.get(name, neighbours.NAMELESS) for name in ports if name != self._me}

    def _watch_listener(self, act: Callable[[], None]) -> None:
        assert self._listener is not None
        self._listener.setblocking(False)
        if self._is_listening:
            self._loop.forget(self._listener)
        self._is_listening = True
        self._loop.watch(self._listener, act)

    def _turn_away(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):
            self._listener.accept()[0].close()

    def meet(self, ports: dict[str, int], key: str) -> None:
        """The run is being released: these are the others' ports, and this is what makes us believe them."""
        if self._listener is None or self._key or not key:
            return
        self._key = bytes.fromhex(key)
        for name, (family, address) in self._places.items():
            if ports.get(name):
                self._peers[name] = Peer(name, family, (address, ports[name]))
        now = self._clock()
        self._vigil = Heartbeats([], now)
        self._greet_until = now + GREETING_S
        self._next = now
        self._watch_listener(self._accept)

    def say_stop(self, reason: str, kill_at: float, *, by_hand: bool) -> None:
        """This node stops: everybody is told until everybody has answered. Only the first reason is told."""
        if self._stop is None and self._key:
            self._stop = (reason, kill_at, by_hand)
            self._tell_news()

    def say_over(self) -> None:
        """Nothing of the run is left here."""
        if not self._is_over:
            self._is_over = True
            self._give_up_at = self._clock() + FAREWELL_S
            self._tell_news()

    def _tell_news(self) -> None:
        self._news = self._serial + 1
        self._next = 0.0

    @property
    def is_done(self) -> bool:
        """Nobody is left who must hear from us."""
        if not self._key or not self._owed():
            return True
        return self._give_up_at is not None and self._clock() >= self._give_up_at

    def silent(self, for_s: float) -> list[str]:
        """Neighbours that had spoken, whose run is not over, and of whom there has been no word for `for_s`."""
        return self._vigil.silent(self._clock(), for_s)

    def unheard(self) -> list[str]:
        """Who has not been heard when the greeting is over: told once, and nobody before and after."""
        if not self._greet_until or self._clock() < self._greet_until:
            return []
        self._greet_until = 0.0
        heard = {peer.name for peer in self._peers.values() if peer.heard}
        return [name for name in self._names if name not in heard and name != self._me]

    def next_deadline(self) -> float | None:
        """When `advance` must be called even if nothing happens."""
        return self._next if self._key else None

    def advance(self) -> None:
        """Say what is due, and take care of the connections."""
        if not self._key:
            return
        now = self._clock()
        self._vigil.look(now)
        if now >= self._next:
            owed = self._owed()
            greeted = [peer for peer in self._peers.values() if self._greet_until and not peer.heard]
            near = [self._peers[name] for name in self._neighbours if name in self._peers]
            for peer in {peer.name: peer for peer in (*owed, *greeted, *near)}.values():
                self._say(peer, now)
            self._next = now + (URGENT_S if owed or greeted else BEAT_S)
        for peer in self._peers.values():
            self._tend(peer)
        for link in list(self._incoming):
            self._tend_incoming(link)

    def _owed(self) -> list[Peer]:
        """Who does not know our news yet and must."""
        if self._stop is not None:
            told = list(self._peers.values())
        elif self._is_over:
            told = [self._peers[name] for name in self._neighbours if name in self._peers]
        else:
            return []
        return [peer for peer in told if not (peer.is_over or peer.is_stopping or peer.answered >= self._news)]

    # Connections that we open

    def _say(self, peer: Peer, now: float) -> None:
        if peer.is_over:
            return
        if peer.link is not None and peer.asked is not None and now - peer.asked >= ANSWER_S:
            self._close(peer)
        if peer.link is None and not self._connect(peer):
            return
        if peer.asked is None:
            peer.asked = now
        assert peer.link is not None
        peer.link.put(self._sealed(peer.name, 0))

    def _connect(self, peer: Peer) -> bool:
        if sum(each.link is not None for each in self._peers.values()) >= OUTGOING:
            return False
        try:
            connecting = socket.socket(peer.family, socket.SOCK_STREAM)
        except OSError:  # No descriptor is left: tried again at the next word.
            return False
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.link = Lines(connecting, seal.LONGEST)
        connecting.connect_ex(peer.address)  # How it went shows when it can be read or written.
        peer.asked = None
        self._loop.watch(connecting, partial(self._hear_answers, peer, peer.link))
        return True

    def _hear_answers(self, peer: Peer, link: Lines) -> None:
        for word in self._words(link):
            peer.asked = None
            peer.answered = max(peer.answered, word.answers)
            self._take(word)
        if peer.link is link and peer.asked is None and link.is_open and peer.name not in self._neighbours:
            link.is_open = False

    def _tend(self, peer: Peer) -> None:
        if peer.link is None:
            return
        peer.link.flush()
        if peer.link.is_open and not peer.is_over:
            self._loop.watch_writing(peer.link.socket, wanted=peer.link.waiting > 0)
        else:
            self._close(peer)

    def _close(self, peer: Peer) -> None:
        if peer.link is not None:
            self._loop.forget(peer.link.socket)
            peer.link.close()
            peer.link = None
            peer.asked = None

    # Connections that others open

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            link = Lines(self._listener.accept()[0], seal.LONGEST)
        except OSError:
            return
        if len(self._incoming) >= INCOMING:
            self._drop(self._incoming[0])
        self._incoming.append(link)
        self._loop.watch(link.socket, partial(self._hear_questions, link))

    def _hear_questions(self, link: Lines) -> None:
        for word in self._words(link):
            self._take(word)
            link.put(self._sealed(word.sender, word.serial))

    def _tend_incoming(self, link: Lines) -> None:
        link.flush()
        if not link.is_open:
            self._drop(link)

    def _drop(self, link: Lines) -> None:
        self._incoming.remove(link)
        self._loop.forget(link.socket)
        link.close()

    # Words

    def _sealed(self, to: str, answers: int) -> bytes:
        self._serial += 1
        reason, kill_at, by_hand = self._stop or ("", 0.0, False)
        grace_s = max(0.0, kill_at - self._clock())
        word = seal.PeerStatus(self._me, to, self._serial, answers, reason, by_hand, grace_s, self._is_over)
        return seal.seal(self._key, word)

    def _words(self, link: Lines) -> list[seal.PeerStatus]:
        """What has arrived on `link`, if it is for us and was not heard before; anything else ends the connection."""
        words = []
        try:
            for line in link.receive():
                word = seal.unseal(self._key, line)
                peer = self._peers.get(word.sender)
                if peer is None or word.to != self._me:
                    raise wire.WireError(f"a word of {word.sender} for {word.to}")
                if word.serial > peer.heard.get(word.answers > 0, 0):
                    peer.heard[word.answers > 0] = word.serial
                    words.append(word)
        except wire.WireError:
            link.is_open = False
        return words

    def _take(self, word: seal.PeerStatus) -> None:
        peer = self._peers[word.sender]
        if word.over:
            peer.is_over = True
            self._vigil.forget(word.sender)
        elif word.sender in self._neighbours:
            self._vigil.heard(word.sender, self._clock())
        if word.stop and not peer.is_stopping:
            peer.is_stopping = True
            self._on_stop(word)
