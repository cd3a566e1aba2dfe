"""Check each step to a host that OpenSSH failed to reach: name, route, host key, login.

The resolver and a plain TCP connection tell which of the first steps fails; `ssh -v` reports those of the protocol.
"""

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv
from pylaunch.transport import host_keys, process
from pylaunch.transport.host_keys import HostKey, Route
from pylaunch.transport.openssh.sharing import destination

CONNECT_S = 4.0
ANSWER_S = 8.0
_ACCEPTED = re.compile(r"^(?:debug1: )?Authenticat(?:ed to|ion succeeded)", re.MULTILINE)
_SERVER = re.compile(r"^debug1: Remote protocol version \S+, remote software version (.+)$", re.MULTILINE)
_HOST_KEY = re.compile(r"^debug1: Server host key: (\S+) (\S+)$", re.MULTILINE)
_METHODS = re.compile(r"^debug1: Authentications that can continue: (\S+)$", re.MULTILINE)
_OFFERED = re.compile(r"^debug1: Offering public key: (.+)$", re.MULTILINE)


def diagnose(host: Host, known_hosts: str | None, login: Argv) -> tuple[str, ...]:
    """Return what each step to `host` finds, in order; `login` is an ssh command with a connection of its own."""
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
    connection.close()
    yield from _protocol(route, project_known_hosts, login)


def _protocol(route: Route, project_known_hosts: str | None, login: Argv) -> Iterator[str]:
    """Report the steps of ssh in its own words: it alone knows the user's agent, files and hardware keys."""
    ssh, *words = login
    try:
        ended = process.run((ssh, "-v", "-o", f"ConnectTimeout={CONNECT_S:.0f}", *words), timeout_s=ANSWER_S)
    except process.TimedOutError:
        yield f"login: `true` did not end within {ANSWER_S:g} s"
        return
    except PylaunchError:
        return
    lines = ended.stderr.splitlines()
    text = "\n".join(lines)  # ssh ends them with \r\n.
    server, shown = _SERVER.search(text), _HOST_KEY.search(text)
    if server is None or shown is None:
        own = "\n".join(line for line in lines if not line.startswith(("debug1: ", "OpenSSH_")))
        yield f"protocol: {process.last_line(own, default='the server closed the connection')}"
        return
    yield f"server: {server[1].strip()}"
    known = _known(route, project_known_hosts)
    if (shown[1], shown[2]) not in {(each.kind, each.fingerprint) for each in known}:
        yield f"host key: shows {shown[1]} {shown[2]}"
        yield from (f"host key: known_hosts has {each.kind} {each.fingerprint}" for each in known)
        return
    yield f"host key: {shown[1]} {shown[2]}, as in known_hosts"
    methods = _METHODS.search(text)
    if methods is not None:
        yield f"login: the server accepts {methods[1].replace(',', ', ')}"
    yield from _login(ended, text, takes_keys=methods is None or "publickey" in methods[1])


def _known(route: Route, project_known_hosts: str | None) -> list[HostKey]:
    files = [Path(project_known_hosts)] if project_known_hosts is not None else []
    files += [Path("~/.ssh/known_hosts").expanduser(), Path("~/.ssh/known_hosts2").expanduser()]
    return [key for file in files for key in host_keys.keys_for(host_keys.read_known_hosts(file), route.place)]


def _login(ended: process.Completed, text: str, *, takes_keys: bool) -> Iterator[str]:
    if ended.ok:
        yield "login: works now"
        return
    if _ACCEPTED.search(text) is not None:
        yield f"login: accepted, and the command `true` ended with {process.describe_exit(ended.returncode)}"
        return
    offered = _OFFERED.findall(text)
    yield from (f"login: offered {key}, not accepted" for key in offered)
    if not offered and not takes_keys:
        yield "login: no key was offered: the server accepts none"
    elif not offered:
        yield "login: no key was offered: none in ~/.ssh, none in the agent, none in the inventory"
