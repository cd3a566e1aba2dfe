"""What agents of one run say to each other, sealed with a key that only they have.

One line: the HMAC-SHA256 of the rest in hexadecimal, a blank, a JSON object. The key is random, made for one run and
sent to the agents over their controller's SSH connections; it is never on a command line and never on a disk. A word
names its sender, its addressee and a serial number that only grows: one that was overheard cannot be said again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from dataclasses import dataclass

from pylaunch.agent import wire
from pylaunch.agent.shared.untrusted_json import UntrustedJsonError, parse_object

LONGEST = 8192
"""Bytes in a line; reasons are cut to fit."""

LONGEST_REASON = 1000
LONGEST_GRACE_S = 1e9


@dataclass(frozen=True)
class PeerStatus:
    """How the sender stands."""

    sender: str
    to: str
    serial: int
    answers: int = 0
    """Serial number of the word that this answers; 0 for one that wants an answer."""

    stop: str = ""
    """Why the run is being stopped, as the node where that began says it; "" while it is not."""

    by_hand: bool = False
    """With `stop`: a person asked for it."""

    grace_s: float = 0.0
    """With `stop`: seconds left until SIGKILL."""

    over: bool = False
    """Nothing of the run is left on the sender's node."""


def seal(key: bytes, word: PeerStatus) -> bytes:
    """`word` as a line."""
    cut = dataclasses.replace(word, stop=word.stop[:LONGEST_REASON])
    body = json.dumps(dataclasses.asdict(cut), separators=(",", ":")).encode()
    return _mac(key, body) + b" " + body + b"\n"


def unseal(key: bytes, line: bytes) -> PeerStatus:
    """The word in `line`. Raises WireError when it was not sealed with `key`, or is no word."""
    mac, _, body = line.partition(b" ")
    if not hmac.compare_digest(mac, _mac(key, body)):
        raise wire.WireError("a line that no agent of this run has sealed")
    try:
        word = wire.from_fields(PeerStatus, parse_object(body, LONGEST))
    except UntrustedJsonError as error:
        raise wire.WireError(f"expected a word: {error}") from None
    if word.serial < 0 or word.answers < 0 or not 0 <= word.grace_s <= LONGEST_GRACE_S:
        raise wire.WireError("a word with a number out of bounds")
    return dataclasses.replace(word, stop=word.stop[:LONGEST_REASON])


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()
