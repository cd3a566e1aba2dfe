"""Reason and hint for a host that ssh cannot reach, from what ssh prints."""

import re

from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.host_errors import BY_HAND
from pylaunch.model.text.argv import quoted
from pylaunch.transport.connector import ConnectionFailure
from pylaunch.transport.openssh.sharing import SSH_PORT, destination, target

_TRUST = "pylaunch trust --limit {host}"
_UP = "check that {host} is up and that its port {port} is open to this machine"
_BANNED = "too many logins at the same time (MaxStartups), or a ban of this machine? on {host}: journalctl -u ssh"
_BY_HAND = f"{BY_HAND}{{by_hand}}"
_GIVE_ADDRESS = "give its address: ansible_host in the inventory, or HostName in ~/.ssh/config"

_REASONS: tuple[tuple[str, str, str | None], ...] = (
    ("Bad configuration option", "ssh does not accept its options",
     "correct ansible_ssh_common_args of {host}, or ~/.ssh/config"),
    ("IDENTIFICATION HAS CHANGED", "host key changed since it was trusted",
     "if the host was reinstalled, compare the fingerprint and run: pylaunch trust --replace --limit {host}"),
    ("No ED25519 host key is known", "host key unknown", _TRUST),
    ("No ECDSA host key is known", "host key unknown", _TRUST),
    ("No RSA host key is known", "host key unknown", _TRUST),
    ("Host key verification failed", "host key not accepted", _TRUST),
    ("no matching host key type found", "no host key of a kind that both sides accept", _BY_HAND),
    ("Unable to negotiate", "no algorithm that both sides accept", _BY_HAND),
    ("Could not resolve hostname", "name does not resolve", _GIVE_ADDRESS),
    ("Connection refused", "no SSH server answers", "start sshd on {host}, or correct ansible_port"),
    ("No route to host", "no route", _UP),
    ("Network is unreachable", "network unreachable", "correct ansible_host of {host}, or this machine's routes"),
    ("during banner exchange", "its SSH server says nothing",
     "{host} accepts connections and then hangs: frozen, or too busy for a login; look at its console"),
    ("Session open refused", "its SSH server refuses a session", "on {host}: sshd -T | grep -i maxsessions"),
    ("Connection timed out", "no answer", _UP),
    ("Operation timed out", "no answer", _UP),
    ("timed out", "its SSH server accepts the connection, and the login stalls",
     "do full packets arrive? ping -M do -s 1400 {address}; if not, correct the MTU on the way; else see its console"),
    ("Identity file", "private key missing", "correct ansible_ssh_private_key_file of {host}"),
    ("UNPROTECTED PRIVATE KEY FILE", "private key open to others, so ssh does not use it",
     "make the key private with chmod 600"),
    ("Permission denied", "SSH authentication refused", _BY_HAND),
    ("Connection closed by", "SSH server closed the connection", "on {host}: journalctl -u ssh"),
    ("kex_exchange_identification", "SSH server closed the connection", _BANNED),
    ("banner exchange: Connection to", "SSH server closed the connection", _BANNED),
    ("Connection reset by", "SSH server closed the connection", _BANNED),
)  # fmt: skip
"""Text, reason and hint, the decisive ones first: ssh warns about a key file before it finds the host unreachable."""

_REFUSED = "Permission denied ("
"""ssh prints the methods of a login that the server refused."""

_NO_KEY = (
    "on {host}, sshd accepts no login by key alone (PubkeyAuthentication, AuthenticationMethods), and pylaunch types no"
    " password"
)
_GIVE_KEY = (
    f"{_BY_HAND}; if it asks for a passphrase: ssh-add; if it asks for a password, give each host your key:"
    " {copy_key} (ssh-keygen makes one)"
)
_METHODS = re.compile(re.escape(_REFUSED) + r"([\w,-]+)\)")

_NOT_REACHED = frozenset(
    ("Could not resolve hostname", "Connection refused", "No route to host", "Network is unreachable",
     "during banner exchange", "Connection timed out", "Operation timed out", "timed out")
)  # fmt: skip
"""Texts that are words of the server's banner where the server has refused the login."""

_QUOTED_LINE = {
    "IDENTIFICATION HAS CHANGED": r"^(SHA256:\S+?)\.?$",
    "UNPROTECTED PRIVATE KEY FILE": r"^(Permissions .*)$",
}
"""The line to quote where it is not the line that identifies the failure."""

_THROUGH = "UNKNOWN port 65535"
"""Name that ssh gives to the far end of a ProxyCommand or jump host."""

_ITS_END = (
    "kex_exchange_identification", "banner exchange", "Connection closed", "Disconnected", "stdio forwarding failed"
)  # fmt: skip
"""Beginnings of lines that follow each failure of a jump host."""

_OF_HOST = ("Received disconnect", "Disconnected", "Unable to negotiate")
"""Beginnings of lines about the far end when its SSH server has answered: the host was reached."""

NO_WORDS = "the connection through it ended"
"""The reason where the jump host's own ssh printed nothing: ssh discards its words for a connection to be shared."""


def explain_failure(host: Host, stderr: str) -> ConnectionFailure:
    """Return the reason and the hint for a failure of ssh; an unknown failure is ssh's last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    through = [line for line in lines if _THROUGH in line]
    if not all(line.startswith(_OF_HOST) for line in through):
        return _of_jump_host(host, [line for line in lines if not line.startswith(_ITS_END)])
    if recognised := _recognised(lines):
        (needle, reason, hint), found = recognised
        quotable = re.search(_QUOTED_LINE.get(needle, "^$"), "\n".join(lines), re.MULTILINE)
        line = quotable[1] if quotable else found
        methods = _METHODS.search(line)
        if methods is not None:
            is_host = host.address in line  # And no jump host.
            hint = _NO_KEY if "publickey" not in methods[1].split(",") else _GIVE_KEY if is_host else hint
        return ConnectionFailure(f"ssh {target(host)}: {reason} ({line})", hint and _filled(hint, host))
    if not lines:  # A channel whose shared connection was lost prints nothing.
        return ConnectionFailure(f"ssh {target(host)}: ssh ended without a message", f"check that {host.name} is up")
    return ConnectionFailure(f"ssh {target(host)}: {(through or lines[-1:])[0]}", _filled(_BY_HAND, host))


def _recognised(lines: list[str]) -> tuple[tuple[str, str, str | None], str] | None:
    """Return the row of the decisive one of `lines`, and that line."""
    is_refused = any(_REFUSED in line for line in lines)
    rows = (row for row in _REASONS if not (is_refused and row[0] in _NOT_REACHED))
    found = ((row, line.removeprefix("ssh: ")) for row in rows for line in lines if row[0] in line)
    return next(found, None)


def _of_jump_host(host: Host, words: list[str]) -> ConnectionFailure:
    """Explain an ssh to the jump host of `host` that printed `words`."""
    recognised = _recognised(words)
    line = recognised[1] if recognised else words[-1] if words else NO_WORDS
    is_key = recognised[0][2] is _TRUST if recognised else not words
    key = "the jump host's own key must be in ~/.ssh/known_hosts; " if is_key else ""
    return ConnectionFailure(
        f"ssh {target(host)}: not reached through its jump host ({line})", _filled(key + _BY_HAND, host)
    )


def _filled(hint: str, host: Host) -> str:
    return hint.format(
        host=host.name,
        address=host.address,
        port=host.ssh.port or SSH_PORT,
        by_hand=quoted(("ssh", *destination(host))),
        copy_key=quoted(("ssh-copy-id", *(("-p", str(host.ssh.port)) if host.ssh.port else ()), target(host))),
    )
