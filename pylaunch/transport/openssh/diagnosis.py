"""Check each step to a host that OpenSSH failed to reach: name, route, host key, login.

The steps repeat what ssh does with tools that report each of them: the resolver, a plain TCP connection, and paramiko,
which separates the steps of the protocol.
"""

import logging
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko

from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import host_keys, process
from pylaunch.transport.host_keys import HostKey, Route, shown_key
from pylaunch.transport.openssh.sharing import destination

CONNECT_S = 4.0
ANSWER_S = 8.0
_ACCEPTED = re.compile(r"^(?:debug1: )?Authenticat(?:ed to|ion succeeded)", re.MULTILINE)
_OFFERED = re.compile(r"^debug1: Offering public key: (.+)$", re.MULTILINE)


def diagnose(host: Host, known_hosts: str | None, login: Argv) -> tuple[str, ...]:
    """Return what each step to `host` finds, in order; `login` is an ssh command with a connection of its own."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    return tuple(_steps(host, known_hosts, login))


def _steps(host: Host, project_known_hosts: str | None, login: Argv) -> Iterator[str]:
    try:
        printed = process.run(("ssh", "-G", *destination(host)), timeout_s=ANSWER_S)
        route = Route.parse(printed.stdout) if printed.ok else None
    except (PylaunchError, KeyError, ValueError):
        route = None
    if route is None:
        return
    if route.proxied:
        yield f"route: {route.address} port {route.port} is behind a jump host or ProxyCommand: not checked further"
        return
    place = f"{route.address} port {route.port}"
    try:
        found = socket.getaddrinfo(route.address, route.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: it is no domain name.
        yield f"name: {route.address} does not resolve here ({getattr(error, 'strerror', 'not a name of a host')})"
        return
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
    if addresses != route.address:
        yield f"name: {route.address} resolves to {addresses}"
    started = time.monotonic()
    try:
        connection = socket.create_connection((route.address, route.port), timeout=CONNECT_S)
    except TimeoutError:
        yield f"tcp: {place} does not answer within {CONNECT_S:g} s: host down, link cut, or a firewall drops packets"
        return
    except OSError as error:
        yield f"tcp: {place}: {error.strerror}"
        return
    yield f"tcp: {place} accepts connections, after {(time.monotonic() - started) * 1000:.1f} ms"
    with connection:
        yield from _protocol(host, route, connection, project_known_hosts, login)


def _protocol(
    host: Host, route: Route, connection: socket.socket, project_known_hosts: str | None, login: Argv
) -> Iterator[str]:  # fmt: skip
    transport = paramiko.Transport(connection)
    try:
        shown = shown_key(transport, ANSWER_S)
        key = HostKey(route.place, shown.get_name(), shown.get_base64())
        yield f"server: {transport.remote_version}"
        known = _known(route, project_known_hosts)
        if key not in known:
            yield f"host key: shows {key.kind} {key.fingerprint}"
            yield from (f"host key: known_hosts has {each.kind} {each.fingerprint}" for each in known)
            return
        yield f"host key: {key.kind} {key.fingerprint}, as in known_hosts"
        user, takes_keys = host.ssh.user or "root", True
        try:
            transport.auth_none(user)
        except paramiko.BadAuthenticationType as error:
            yield f"login: the server accepts {', '.join(error.allowed_types)}"
            takes_keys = "publickey" in error.allowed_types
        yield from _offered(login, takes_keys=takes_keys)
    except (OSError, EOFError, ValueError, paramiko.SSHException) as error:  # ValueError: text that is no UTF-8.
        yield f"protocol: {error or 'the server closed the connection'}"
    finally:
        transport.close()


def _known(route: Route, project_known_hosts: str | None) -> list[HostKey]:
    files = [Path(project_known_hosts)] if project_known_hosts is not None else []
    files += [Path("~/.ssh/known_hosts").expanduser(), Path("~/.ssh/known_hosts2").expanduser()]
    return [key for file in files for key in host_keys.keys_for(host_keys.read_known_hosts(file), route.place)]


def _offered(login: Argv, *, takes_keys: bool) -> Iterator[str]:
    """Report the keys that OpenSSH offers, in its words: it alone knows the user's agent, files and hardware keys."""
    ssh, *words = login
    try:
        ended = process.run((ssh, "-v", *words), timeout_s=ANSWER_S)
    except process.TimedOutError:
        yield f"login: `true` did not end within {ANSWER_S:g} s"
        return
    except PylaunchError:
        return
    if ended.ok:
        yield "login: works now"
        return
    text = "\n".join(ended.stderr.splitlines())  # ssh ends the lines with \r\n.
    if _ACCEPTED.search(text) is not None:
        yield f"login: accepted, and the command `true` ended with {process.describe_exit(ended.returncode)}"
        return
    offered = _OFFERED.findall(text)
    yield from (f"login: offered {key}, not accepted" for key in offered)
    if not offered and not takes_keys:
        yield "login: no key was offered: the server accepts none"
    elif not offered:
        yield "login: no key was offered: none in ~/.ssh, none in the agent, none in the inventory"
