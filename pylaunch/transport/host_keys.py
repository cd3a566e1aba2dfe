"""Asks SSH servers for their host keys, so that a person can decide whether to trust them.

OpenSSH's configuration decides where a host really is (`ssh -G`). A server that this machine reaches directly is asked
with paramiko, many at a time in one process; one behind a jump host or a ProxyCommand is asked by OpenSSH itself, which
alone knows the way. Nothing is sent but the key exchange: no user name is tried, no command runs.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import paramiko

from pylaunch.errors import PylaunchError
from pylaunch.model.argv import Argv
from pylaunch.model.cluster import Host
from pylaunch.transport import known_hosts, process
from pylaunch.transport.known_hosts import HostKey
from pylaunch.transport.openssh.failures import explain_failure
from pylaunch.transport.openssh.options import config_word, destination

ANSWER_TIMEOUT_S = 10
AT_ONCE = 32
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")

Known = Callable[[str], Sequence[HostKey]]
"""The keys that are trusted already for a server, named as in known_hosts."""


@dataclass(frozen=True)
class Route:
    """Where OpenSSH goes for a host once its configuration is read."""

    address: str
    port: int
    place: str
    """How known_hosts names the server; `HostKeyAlias` included."""

    proxied: bool

    @classmethod
    def parse(cls, text: str) -> Route:
        """The route in what `ssh -G` prints."""
        said = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
        address, port = said["hostname"], int(said["port"])
        alias = said.get("hostkeyalias")
        proxied = any(said.get(way, "none") != "none" for way in ("proxyjump", "proxycommand"))
        return cls(address, port, alias or known_hosts.place(address, port), proxied)


@dataclass(frozen=True)
class Answered:
    """A host that showed its key."""

    host: str
    key: HostKey


@dataclass(frozen=True)
class Silent:
    """A host that did not, and why."""

    host: str
    reason: str


def scan(hosts: Sequence[Host], known: Known) -> list[Answered | Silent]:
    """Ask all `hosts` for their keys, several at a time; answers in the order of `hosts`.

    A kind of key that is known already is asked for first, so that it can be compared; otherwise Ed25519 is.
    """
    # paramiko logs what it also raises, and without a handler that lands on stderr.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return list(pool.map(lambda host: _ask(host, known), hosts))


def _ask(host: Host, known: Known) -> Answered | Silent:
    try:
        asked = process.run(("ssh", "-G", *destination(host)), timeout_s=ANSWER_TIMEOUT_S)
        if not asked.ok:
            return Silent(host.name, explain_failure(host, asked.stderr).reason)
        route = Route.parse(asked.stdout)
        kinds = tuple(key.kind for key in known(route.place))
        key = _through_openssh(host, route, kinds) if route.proxied else _directly(route, kinds)
    except (OSError, EOFError, paramiko.SSHException, PylaunchError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "the server closed the connection"
        return Silent(host.name, f"{host.address}: {reason}")
    return Answered(host.name, key)


def _directly(route: Route, kinds: Sequence[str]) -> HostKey:
    with socket.create_connection((route.address, route.port), timeout=ANSWER_TIMEOUT_S) as connection:
        transport = paramiko.Transport(connection)
        transport.banner_timeout = ANSWER_TIMEOUT_S
        try:
            security = transport.get_security_options()
            offered = security.key_types
            security.key_types = tuple(dict.fromkeys([*(a for a in _algorithms(kinds) if a in offered), *offered]))
            transport.start_client(timeout=ANSWER_TIMEOUT_S)
            key = transport.get_remote_server_key()
        finally:
            transport.close()
    return HostKey(route.place, key.get_name(), key.get_base64())


def _through_openssh(host: Host, route: Route, kinds: Sequence[str]) -> HostKey:
    """Let OpenSSH note the key in a file made for this one question."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-scan-") as directory:
        note = Path(directory) / "known_hosts"
        asked = process.run(_question(host, note, kinds), timeout_s=3 * ANSWER_TIMEOUT_S)
        keys = known_hosts.keys_for(known_hosts.read_known_hosts(note), route.place)
    if not keys:
        raise paramiko.SSHException(explain_failure(host, asked.stderr).reason)
    return keys[0]


def _question(host: Host, note: Path, kinds: Sequence[str]) -> Argv:
    algorithms = ",".join(_algorithms(kinds) or ("ssh-ed25519",))
    return (
        "ssh", "-T",
        "-o", "ControlPath=none",
        "-o", "BatchMode=yes",
        "-o", "PreferredAuthentications=none",
        "-o", "StrictHostKeyChecking=accept-new",
        "-o", f"UserKnownHostsFile={config_word(str(note))}",
        "-o", f"GlobalKnownHostsFile={os.devnull}",
        "-o", f"HostKeyAlgorithms=^{algorithms}",
        "-o", "HashKnownHosts=no",
        "-o", "UpdateHostKeys=no",
        "-o", "LogLevel=INFO",
        "-o", f"ConnectTimeout={ANSWER_TIMEOUT_S}",
        *destination(host), "true",
    )  # fmt: skip


def _algorithms(kinds: Sequence[str]) -> tuple[str, ...]:
    """The signatures that keys of these kinds make."""
    return tuple(name for kind in kinds for name in (_RSA_SIGNATURES if kind == "ssh-rsa" else (kind,)))
