"""Fetch the host keys of SSH servers, so that a person can decide whether to trust them.

OpenSSH's configuration decides address and port of a host (`ssh -G`). paramiko asks servers that this machine reaches
directly, many at a time in one process; OpenSSH itself asks those behind a jump host or a ProxyCommand. Only the key
exchange takes place: no user name is sent and no command runs.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import process
from pylaunch.transport.openssh.failures import explain_failure
from pylaunch.transport.openssh.options import config_word, destination
from pylaunch.transport.trust import known_hosts
from pylaunch.transport.trust.known_hosts import HostKey

ANSWER_TIMEOUT_S = 10
AT_ONCE = 32
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")

Known = Callable[[str], Sequence[HostKey]]
"""Returns the keys that are already trusted for a server, named as in known_hosts."""


@dataclass(frozen=True)
class Route:
    """Address and port that OpenSSH connects to for a host, after its configuration."""

    address: str
    port: int
    place: str
    """Name of the server in known_hosts, `HostKeyAlias` included."""

    proxied: bool

    @classmethod
    def parse(cls, text: str) -> Route:
        """Return the route in the output of `ssh -G`."""
        settings = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
        address, port = settings["hostname"], int(settings["port"])
        alias = settings.get("hostkeyalias")
        proxied = any(settings.get(name, "none") != "none" for name in ("proxyjump", "proxycommand"))
        return cls(address, port, alias or known_hosts.place(address, port), proxied)


@dataclass(frozen=True)
class Answered:
    """A host that presented its key."""

    host: str
    key: HostKey


@dataclass(frozen=True)
class Silent:
    """A host that presented no key, and the reason."""

    host: str
    reason: str


def scan(hosts: Sequence[Host], known: Known) -> list[Answered | Silent]:
    """Fetch the keys of all `hosts`, several at a time; the result has the order of `hosts`.

    A key type that is already known is preferred, so that the keys can be compared; the default is Ed25519.
    """
    # paramiko logs what it also raises, to stderr where no handler is set.
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
    """Let OpenSSH write the key to a temporary known_hosts file."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-scan-") as directory:
        note = Path(directory) / "known_hosts"
        asked = process.run(_key_exchange(host, note, kinds), timeout_s=3 * ANSWER_TIMEOUT_S)
        keys = known_hosts.keys_for(known_hosts.read_known_hosts(note), route.place)
    if not keys:
        raise paramiko.SSHException(explain_failure(host, asked.stderr).reason)
    return keys[0]


def _key_exchange(host: Host, note: Path, kinds: Sequence[str]) -> Argv:
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
    """Return the signature algorithms of these key types."""
    return tuple(name for kind in kinds for name in (_RSA_SIGNATURES if kind == "ssh-rsa" else (kind,)))
