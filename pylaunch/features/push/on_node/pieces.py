"""Program of one node in a push: it receives pieces from the controller and from peers, and serves them to peers.

    controller                       node
    order, one JSON line  ──►        files, hashes of pieces, certificate and key of the push
                          ◄── ready  port, pieces that are here
    piece and its bytes   ──►
    fetch                 ──►        pieces, each with a peer that has it
                          ◄── has    pieces that are here and have the right hash
                          ◄── failed a piece that a peer did not send, and why
                          ◄── at     bytes received and hashed so far, once a second
                          ◄── done   all files have their names
                          ◄── error  why this node cannot receive the files; it ends
    end of input          ──►        exit; pieces stay for the next push of the same files

A peer connects with TLS 1.3 and sends the number of a piece; the answer is the bytes of the piece. Both sides present
the certificate of the push and accept no other one. The receiver compares the piece with the hash from the
controller, so a peer can delay a piece and never change it.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
from typing import Any, Callable

from pylaunch.features.push.on_node.store import PieceStore, StoreError, WrongPieceError, reason

FETCHERS = 4
"""Pieces that this node fetches at the same time."""

MOST_SERVED = 32
"""Connections that are served at the same time; a stranger can occupy one for ANSWER_S, in which the handshake ends."""

CONNECT_S = 3.0
ANSWER_S = 5.0
"""A peer that sends nothing for this long is silent."""

REPORT_S = 1.0
UNHEARD_S = 60.0
"""A controller that sends nothing for this long has lost its connection: this program ends, so that the next push of
the same files can take over. The controller sends an empty message each second."""

AT_ONCE = socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
"""Otherwise the number of a piece waits 40 ms for the acknowledgement of the end of the handshake: ten times as long as
the piece itself takes."""

CHUNK = 256 << 10
MEMORY = "/dev/shm"
"""File system in memory."""

_PIECE = struct.Struct("!I")
CERTIFICATE = "-----BEGIN CERTIFICATE-----"


class SendingRate:
    """Limit of the bytes that this node sends to peers; 0 for none."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self.chunk = max(1024, min(CHUNK, rate // 16)) if rate else CHUNK
        """Bytes of one turn: peers that wait for theirs must hear from this node within ANSWER_S."""

        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def spend(self, size: int) -> None:
        """Wait until `size` further bytes may be sent."""
        if not self._rate:
            return
        with self._lock:
            begin = max(self._free_at, time.monotonic())
            self._free_at = begin + size / self._rate
        time.sleep(max(0.0, begin - time.monotonic()))


def tls_context(identity: str, side: int) -> ssl.SSLContext:
    """Return the settings of connections in which both sides present the certificate in `identity` (PEM, with its
    private key) and accept only that one. `side` is ssl.PROTOCOL_TLS_SERVER or PROTOCOL_TLS_CLIENT."""
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # The certificate is that of the push, not of a host.
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=identity[identity.index(CERTIFICATE) :])
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # No resumption: every connection proves its key.
    # `ssl` reads keys from files only; this one is in memory and in no directory. Not every Python has memfd_create.
    with tempfile.TemporaryFile(dir=MEMORY) as file:
        file.write(identity.encode())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


class PieceNode:
    """This node as it receives pieces and serves them to peers."""

    def __init__(self, order: dict[str, Any], store: PieceStore) -> None:
        self._as_server = tls_context(order["identity"], ssl.PROTOCOL_TLS_SERVER)
        self._as_client = tls_context(order["identity"], ssl.PROTOCOL_TLS_CLIENT)
        self._store = store
        self._orders: queue.Queue[tuple[int, str, str, int]] = queue.Queue()
        self._incoming: dict[int, bytearray] = {}
        self._pace = SendingRate(order["rate"])
        self._free = threading.BoundedSemaphore(MOST_SERVED)
        self._received = 0
        self._heard_at = time.monotonic()
        self._is_opening = True

    def listen(self) -> int:
        """Serve peers from now on; return the port."""
        is_dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if is_dual else socket.AF_INET
        listener = socket.create_server(("", 0), family=family, backlog=128, dualstack_ipv6=is_dual)
        listener.setsockopt(*AT_ONCE)  # Accepted connections inherit it.
        _begin(self._accept, listener)
        return int(listener.getsockname()[1])

    def follow(self) -> None:
        """Fetch pieces as the controller orders until it closes stdin; give the files their names when all are here."""
        for work in (self._end, *[self._fetch_all] * FETCHERS):
            _begin(work)
        self._heard_at = time.monotonic()
        self._is_opening = False
        for line in sys.stdin.buffer:
            self._heard_at = time.monotonic()
            self._handle(json.loads(line))

    def report(self) -> None:
        """Report once a second how far this node is; end when the controller is silent or gone."""
        while self._is_opening or time.monotonic() - self._heard_at < UNHEARD_S:
            try:
                _print({"at": self._received + self._store.hashed})
            except OSError:
                break
            time.sleep(REPORT_S)
        os._exit(1)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            self._free.acquire()
            try:
                peer, _ = listener.accept()
            except OSError:  # The peer has given up.
                self._free.release()
                continue
            _begin(self._serve, peer)

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(ANSWER_S)
            with self._as_server.wrap_socket(connection, server_side=True) as peer:
                (piece,) = _PIECE.unpack(_exactly(peer, _PIECE.size))
                if piece < len(self._store.have) and self._store.have[piece]:
                    for descriptor, offset, size in self._store.parts(piece):
                        self._send(peer, descriptor, offset, size)
        except OSError:
            pass  # The peer asks somebody else.
        finally:
            self._free.release()

    def _send(self, peer: socket.socket, descriptor: int, offset: int, size: int) -> None:
        while size:
            # Not `sendfile`: over TLS it makes records of 8 KiB, which cost a quarter more processor time.
            part = os.pread(descriptor, min(self._pace.chunk, size), offset)
            if not part:
                raise OSError("a file became shorter")
            self._pace.spend(len(part))
            peer.sendall(part)
            offset, size = offset + len(part), size - len(part)

    def _handle(self, message: dict[str, Any]) -> None:
        if "piece" in message:
            content = sys.stdin.buffer.read(message["size"]) if "size" in message else b""
            self._part(message["piece"], message["offset"], content)
        for piece, name, address, port in message.get("fetch", ()):
            self._orders.put((piece, name, address, port))

    def _part(self, piece: int, offset: int, content: bytes) -> None:
        """Collect a part of a piece from the controller; keep the piece when it is complete."""
        if offset == 0:
            self._incoming[piece] = bytearray()
        self._incoming[piece] += content
        self._received += len(content)
        if len(self._incoming[piece]) == self._store.size_of(piece):
            self._keep(piece, self._incoming.pop(piece), "")

    def _keep(self, piece: int, content: bytearray, source: str) -> None:
        try:
            self._store.write(piece, content)
        except WrongPieceError:
            _print({"failed": [piece, source, "wrong"]})
        except OSError as error:
            _fail(reason(error))
        else:
            _print({"has": [piece]})

    def _fetch_all(self) -> None:
        while True:
            piece, name, address, port = self._orders.get()
            if self._store.have[piece]:
                _print({"has": [piece]})
                continue
            try:
                content = self._fetch(piece, address, port)
            except socket.timeout:
                _print({"failed": [piece, name, "silent"]})
            except (OSError, UnicodeError) as error:  # UnicodeError: the address is no domain name.
                _print({"failed": [piece, name, getattr(error, "strerror", None) or str(error)]})
            else:
                self._keep(piece, content, name)

    def _fetch(self, piece: int, address: str, port: int) -> bytearray:
        connection = socket.create_connection((address, port), timeout=CONNECT_S)
        connection.settimeout(ANSWER_S)
        connection.setsockopt(*AT_ONCE)
        with self._as_client.wrap_socket(connection) as peer:
            peer.sendall(_PIECE.pack(piece))
            return _exactly(peer, self._store.size_of(piece), self._count)

    def _count(self, size: int) -> None:
        self._received += size  # Only an estimate for the progress, so without a lock.

    def _end(self) -> None:
        try:
            self._store.prove()
            self._store.finish()
        except StoreError as error:
            _fail(str(error))
        except OSError as error:
            _fail(reason(error))
        _print({"done": True})


def _exactly(peer: socket.socket, size: int, count: Callable[[int], None] = lambda size: None) -> bytearray:
    content = bytearray(size)
    view = memoryview(content)
    while view:
        received = peer.recv_into(view)
        if not received:
            raise ConnectionError("the connection ended")
        count(received)
        view = view[received:]
    return content


def _begin(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


_printing = threading.Lock()


def _print(what: dict[str, Any]) -> None:
    with _printing:
        print(json.dumps(what), flush=True)


def _fail(why: str) -> None:
    """Report why this node cannot receive the files, and end."""
    _print({"error": why})
    os._exit(1)


def main() -> None:
    """Receive and serve pieces until the controller closes stdin."""
    order = json.loads(sys.stdin.buffer.readline())
    try:
        store = PieceStore(order)
        node = PieceNode(order, store)
        _begin(node.report)
        store.open()
    except StoreError as error:
        _fail(str(error))
    except OSError as error:
        _fail(reason(error))
    _print({"ready": {"port": node.listen(), "have": [piece for piece, is_here in enumerate(store.have) if is_here]}})
    node.follow()
    os._exit(0)  # Threads may still wait for peers, and what is on the disk stays.
