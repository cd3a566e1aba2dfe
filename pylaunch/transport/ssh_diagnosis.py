"""Why a host is not reached over SSH, step by step: its name, the way to it, its key, and what it says to ours.

OpenSSH has failed before this is asked. What it does is found out once more from below, with what leaves traces: the
resolver, a plain connection, and paramiko, which tells each step of the protocol apart.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko

from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.transport import known_hosts, process, ssh
from pylaunch.transport.host_keys import Route
from pylaunch.transport.known_hosts import HostKey

AT_ONCE = 32
CONNECT_S = 4.0
ANSWER_S = 8.0
_ACCEPTED = re.compile(r"^(?:debug1: )?Authenticat(?:ed to|ion succeeded)", re.MULTILINE)
_OFFERED = re.compile(r"^debug1: Offering public key: (.+)$", re.MULTILINE)


def diagnose(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """What is found on the way to each host of `cluster` that is reached over SSH, as lines in the order of the way."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    hosts = [host for host in cluster.hosts if host.connection is Connection.SSH]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda host: tuple(_steps(host, cluster.known_hosts)), hosts)
        return dict(zip((host.name for host in hosts), found, strict=True))


def _steps(host: Host, project_known_hosts: str | None) -> Iterator[str]:
    try:
        asked = process.run(("ssh", "-G", *ssh.destination(host)), timeout_s=ANSWER_S)
        route = Route.parse(asked.stdout) if asked.ok else None
    except (PylaunchError, KeyError, ValueError):
        route = None
    if route is None:
        return
    if route.proxied:
        yield f"way: to {route.address} port {route.port} through a jump host or ProxyCommand, which ssh alone knows"
        return
    place = f"{route.address} port {route.port}"
    try:
        found = socket.getaddrinfo(route.address, route.port, type=socket.SOCK_STREAM)
    except OSError as error:
        yield f"name: {route.address} does not resolve here ({error.strerror})"
        return
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
    if addresses != route.address:
        yield f"name: {route.address} resolves to {addresses}"
    begun = time.monotonic()
    try:
        connection = socket.create_connection((route.address, route.port), timeout=CONNECT_S)
    except TimeoutError:
        yield f"way: {place} gives no answer within {CONNECT_S:g} s: host down, link cut, or a firewall drops packets"
        return
    except OSError as error:
        yield f"way: {place}: {error.strerror}"
        return
    yield f"way: {place} accepts connections, after {(time.monotonic() - begun) * 1000:.1f} ms"
    with connection:
        yield from _protocol(host, route, connection, project_known_hosts)


def _protocol(
    host: Host, route: Route, connection: socket.socket, project_known_hosts: str | None
) -> Iterator[str]:  # fmt: skip
    transport = paramiko.Transport(connection)
    transport.banner_timeout = ANSWER_S
    try:
        transport.start_client(timeout=ANSWER_S)
        shown = transport.get_remote_server_key()
        key = HostKey(route.place, shown.get_name(), shown.get_base64())
        yield f"server: {transport.remote_version}"
        known = _known(route, project_known_hosts)
        if key not in known:
            yield f"host key: shows {key.kind} {key.fingerprint}"
            yield from (f"host key: known_hosts has {each.kind} {each.fingerprint}" for each in known)
            return
        yield f"host key: {key.kind} {key.fingerprint}, as known_hosts has it"
        user = host.ssh.user or "root"
        try:
            transport.auth_none(user)
        except paramiko.BadAuthenticationType as error:
            yield f"login: the server accepts {', '.join(error.allowed_types)}"
        yield from _offered(host, project_known_hosts)
    except (OSError, EOFError, paramiko.SSHException) as error:
        yield f"protocol: {error or 'the server closed the connection'}"
    finally:
        transport.close()


def _known(route: Route, project_known_hosts: str | None) -> list[HostKey]:
    files = [Path(project_known_hosts)] if project_known_hosts is not None else []
    files += [Path("~/.ssh/known_hosts").expanduser(), Path("~/.ssh/known_hosts2").expanduser()]
    return [key for file in files for key in known_hosts.keys_for(known_hosts.read_known_hosts(file), route.place)]


def _offered(host: Host, project_known_hosts: str | None) -> Iterator[str]:
    """The keys that OpenSSH offers, in its own words: only it knows the user's agent, files and hardware keys."""
    program, *words = ssh.command(host, project_known_hosts, ("true",))
    try:
        asked = process.run((program, "-v", "-o", "ControlPath=none", *words), timeout_s=ANSWER_S)
    except PylaunchError:
        return
    if asked.ok:
        yield "login: works now"
        return
    if _ACCEPTED.search(asked.stderr) is not None:
        yield f"login: accepted, and the command `true` ended with {process.describe_exit(asked.returncode)}"
        return
    offered = _OFFERED.findall(asked.stderr)
    yield from (f"login: offered {key}, not accepted" for key in offered)
    if not offered:
        yield "login: no key was offered: none in ~/.ssh, none in the agent, none in the inventory"
