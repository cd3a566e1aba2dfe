"""Program of one node in the network test: it listens, reports its ports, and connects to its peers on request.

It is not a reader of the probe but has its own SSH channel, because all nodes must listen before any connects.

    controller                       node
                    ◄── listening    ports, holder of the rendezvous port, duration of the login shell
    ping            ──►
                    ◄── time         its clock
    connect (peers) ──►              to every port of every peer, all at once
                    ◄── row          result of each connection
    end of input    ──►              exit

A connection exchanges introductions (name of the node, id of the conversation), then sends BULK bytes in full packets:
an introduction also passes a path that drops large packets, training does not.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import sys
import threading
import time
from typing import Any

from pylaunch.agent.shared import leases, ports
from pylaunch.agent.shared.untrusted_json import parse_object

LONGEST_INTRODUCTION = 4096

CONNECT_S = 2.0
"""Linux repeats a lost SYN after 1 s, so one lost packet does not look like a firewall."""

ANSWER_S = 2.0
BULK_S = 2.0
BULK = 32 << 10
"""Bytes: several packets even of 9000 bytes, and less than a socket buffer."""

EPHEMERAL = 2
"""Number of ports that the kernel picks from the node's ephemeral range, as for NCCL and gloo."""

RENDEZVOUS = "rendezvous"
PORT_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


class MeshNode:
    """Node that runs this program."""

    def __init__(self, name: str, conversation: str) -> None:
        self._introduction = json.dumps({"conversation": conversation, "name": name}).encode() + b"\n"
        self._conversation = conversation
        self._kept: list[Any] = []
        """Servers and the lease, closed when the process exits."""

    async def listen(self, port: int | None) -> dict[str, Any]:
        """Listen on `port` unless it is in use, and on ephemeral ports; return the ports and the holder of `port`."""
        listening: dict[str, int] = {}
        for index in range(EPHEMERAL):
            listening[f"ephemeral {index}"] = await self._serve(0)
        taken = await self._rendezvous(port) if port is not None else None
        if port is not None and taken is None:
            listening[RENDEZVOUS] = port
        return {"ports": listening, "taken": taken, "ephemeral_range": _port_range()}

    async def _rendezvous(self, port: int) -> dict[str, Any] | None:
        """Return the holder of `port`, or None after taking it. The lease shows a run that only binds the port."""
        lease = leases.take(leases.port_name(port))
        if isinstance(lease, leases.Holder):
            return {"by": str(lease), "run": lease.run if lease.is_ours and lease.run != leases.PROBE else ""}
        self._kept.append(lease)
        asyncio.get_running_loop().add_reader(lease, leases.answer, lease, leases.PROBE, [], time.time())
        try:
            await self._serve(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return {"by": "", "why": os.strerror(error.errno or 0), "run": ""}
            found = ports.listener(port)
            return {"by": str(found or "a process that cannot be seen"), "run": (found and found.run) or ""}
        return None

    async def _serve(self, port: int) -> int:
        listener = _listener(port)
        self._kept.append(await asyncio.start_server(self._answer, sock=listener))
        return int(listener.getsockname()[1])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await asyncio.wait_for(reader.readline(), ANSWER_S):
                writer.write(self._introduction)
                await asyncio.wait_for(reader.readexactly(BULK), BULK_S)
                writer.write(b"whole\n")
                await writer.drain()
        except (OSError, ValueError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            pass  # ValueError: a line without an end.
        finally:
            writer.close()

    async def row(self, peers: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the result of each connection to `peers`: peer → kind of port → result."""
        tries = {
            (peer["name"], kind): asyncio.ensure_future(self._try(peer["name"], peer["address"], port))
            for peer in peers
            for kind, port in peer["ports"].items()
        }
        await asyncio.gather(*tries.values())
        row: dict[str, dict[str, Any]] = {peer["name"]: {} for peer in peers}
        for (name, kind), tried in tries.items():
            row[name][kind] = tried.result()
        return row

    async def _try(self, name: str, address: str, port: int) -> dict[str, Any]:
        begun = time.monotonic()
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), CONNECT_S)
        except ConnectionRefusedError:
            return {"end": "refused"}
        except (asyncio.TimeoutError, TimeoutError):
            return {"end": "silent"}
        except socket.gaierror as error:
            return {"end": "nameless", "text": error.strerror}
        except OSError as error:
            return {"end": "unreachable", "text": os.strerror(error.errno) if error.errno else str(error)}
        seconds = time.monotonic() - begun
        try:
            return {**await self._talk(name, reader, writer), "seconds": round(seconds, 5)}
        except (OSError, asyncio.IncompleteReadError):
            return {"end": "closed"}
        finally:
            writer.close()

    async def _talk(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
        writer.write(self._introduction)
        try:
            line = await asyncio.wait_for(reader.readline(), ANSWER_S)
        except asyncio.TimeoutError:
            return {"end": "mute"}
        except ValueError:  # A line without an end.
            return {"end": "stranger"}
        try:
            introduction = parse_object(line, LONGEST_INTRODUCTION)
            if introduction["conversation"] != self._conversation or introduction["name"] != name:
                return {"end": "other", "name": str(introduction["name"])[:100]}
        except (ValueError, KeyError, TypeError):
            return {"end": "stranger" if line else "closed"}
        writer.write(b"." * BULK)
        try:
            if not await asyncio.wait_for(reader.readline(), BULK_S):
                return {"end": "closed"}
        except (ValueError, asyncio.TimeoutError):
            return {"end": "stalled"}
        connection = writer.get_extra_info("socket")
        return {
            "end": "ok",
            "segment": connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
            "family": int(connection.family),
        }


def _listener(port: int) -> socket.socket:
    """Return a listening socket on every address of both families, if both exist. Raises OSError."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind((address, port))
            listener.listen(256)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL:
                raise
    raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))


def _port_range() -> tuple[int, int] | None:
    try:
        with open(PORT_RANGE, encoding="ascii") as file:
            low, high = file.read().split()
    except OSError:
        return None
    return int(low), int(high)


def _shell_seconds(begun: float) -> float:
    """Return the duration of login shell and Python start: the shell replaced itself with this process by exec."""
    with open("/proc/self/stat", "rb") as file:
        ticks = int(file.read().rpartition(b")")[2].split()[19])
    return begun - ticks / os.sysconf("SC_CLK_TCK")


def _print(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _read_input(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes]) -> None:
    line = b"."
    while line:
        line = sys.stdin.buffer.readline()
        loop.call_soon_threadsafe(lines.put_nowait, line)


async def _converse(begun: float) -> None:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    threading.Thread(target=_read_input, args=(loop, lines), daemon=True).start()
    question = json.loads(await lines.get())
    node = MeshNode(question["name"], question["conversation"])
    listening = await node.listen(question["port"])
    _print({"listening": listening, "shell_seconds": round(_shell_seconds(begun), 3)})
    while True:
        line = await lines.get()
        if not line:
            return
        order = json.loads(line)
        _print({"time": time.time()} if "ping" in order else {"row": await node.row(order["connect"])})


def main(begun: float) -> None:
    """Answer requests until the controller closes stdin. `begun`: start of this program in seconds since boot."""
    asyncio.run(_converse(begun))
    sys.stdout.flush()
    # The thread that reads stdin never returns, and nothing needs cleanup.
    os._exit(0)
