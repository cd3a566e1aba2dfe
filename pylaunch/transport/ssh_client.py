"""The OpenSSH client of this machine."""

from __future__ import annotations

from pylaunch.errors import PylaunchError
from pylaunch.transport import process

_ANSWERS_S = 10.0


def version() -> str | None:
    """Return the version of the client, as "OpenSSH_9.2p1"; None without an answer."""
    try:
        answer = process.run(("ssh", "-V"), timeout_s=_ANSWERS_S)
    except PylaunchError:
        return None
    return answer.stderr.partition(",")[0].strip() or None
