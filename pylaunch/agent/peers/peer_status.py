"""Message between the agents of one run, authenticated with the key of that run.

One message per line: the HMAC-SHA256 of the rest in hexadecimal, a space, a JSON object. The controller makes a random
key for each run and sends it to the agents over SSH; it is never on a command line and never on a disk. A message names
its sender, its recipient and a serial number that only increases, so that a recorded message cannot be replayed.
"""

from __future__ import annotations

import hashlib
import hmac
import json

from pylaunch import protocol
from pylaunch.base.dataclass import asdict, dataclass, replace
from pylaunch.base.untrusted_json import UntrustedJsonError, parse_object

MAX_LINE = 8192
"""Longest line in bytes; reasons are cut to fit."""

MAX_REASON = 1000
MAX_GRACE_S = 1e9


@dataclass(frozen=True)
class PeerStatus:
    """State of the run on the sender's node."""

    sender: str
    to: str
    serial: int
    answers: int = 0
    """Serial number of the message that this one answers; 0 for a message that expects an answer."""

    stop: str = ""
    """Reason of the stop, with the host where it began; "" while the run is not being stopped."""

    by_hand: bool = False
    """A person requested the stop."""

    grace_s: float = 0.0
    """Seconds until SIGKILL, once the run is being stopped."""

    over: bool = False
    """The run has ended on the sender's node and nothing of it is left."""


def encode(key: bytes, status: PeerStatus) -> bytes:
    """Return `status` as one line."""
    cut = replace(status, stop=status.stop[:MAX_REASON])
    body = json.dumps(asdict(cut), separators=(",", ":")).encode()
    return _mac(key, body) + b" " + body + b"\n"


def decode(key: bytes, line: bytes) -> PeerStatus:
    """Return the status in `line`. Raises WireError for a line that is not authentic, malformed or out of bounds."""
    mac, _, body = line.partition(b" ")
    if not hmac.compare_digest(mac, _mac(key, body)):
        raise protocol.WireError("expected a message with the key of this run")
    try:
        status = protocol.from_fields(PeerStatus, parse_object(body, MAX_LINE))
    except UntrustedJsonError as error:
        raise protocol.WireError(f"expected a message of an agent: {error}") from None
    if status.serial < 0 or status.answers < 0 or not 0 <= status.grace_s <= MAX_GRACE_S:
        raise protocol.WireError("expected a message of an agent, got a number out of bounds")
    return replace(status, stop=status.stop[:MAX_REASON])


def _mac(key: bytes, body: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()
