"""Pieces of a push on one node: what is on the disk, and what strangers get."""

import contextlib
import os
import socket
import ssl
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from pylaunch.features.push.on_node import pieces
from pylaunch.features.push.on_node import store as node_store
from pylaunch.features.push.on_node.pieces import CERTIFICATE, PieceNode, tls_context
from pylaunch.features.push.on_node.store import ABANDONED_S, PieceStore, StoreError, WrongPieceError
from pylaunch.features.push.payload import PIECE, Payload, read_payload
from pylaunch.features.push.spread import new_identity

IDENTITY = new_identity()
FOREIGN = new_identity() + IDENTITY[IDENTITY.index(CERTIFICATE) :]
"""Another certificate, of somebody who accepts that of the push."""


@pytest.fixture
def payload(tmp_path: Path) -> Payload:
    """Three files in a directory: a piece and a half, none, and a few bytes that share the second piece."""
    source = tmp_path / "source/tree"
    source.mkdir(parents=True)
    (source / "a").write_bytes(os.urandom(PIECE * 3 // 2))
    (source / "b").touch()
    (source / "c").write_bytes(b"few")
    return read_payload([source], f"{tmp_path}/node/tree")


def order(payload: Payload) -> dict[str, Any]:
    return {**payload.order, "identity": IDENTITY, "rate": 0}


def opened(payload: Payload) -> PieceStore:
    store = PieceStore(order(payload))
    store.open()
    return store


def test_a_python_without_memfd_create_reads_the_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert tls_context(IDENTITY, ssl.PROTOCOL_TLS_SERVER).verify_mode is ssl.CERT_REQUIRED


def test_files_have_their_names_at_the_end_alone(payload: Payload, tmp_path: Path) -> None:
    store = opened(payload)
    assert store.have == [False, False]
    with pytest.raises(WrongPieceError):
        store.write(0, bytes(PIECE))
    assert store.write(1, payload.read(1))
    assert not store.write(1, payload.read(1))
    assert not (tmp_path / "node/tree").exists()
    store.write(0, payload.read(0))
    store.prove()
    store.finish()
    assert [file.name for file in sorted((tmp_path / "node/tree").iterdir())] == ["a", "b", "c"]
    assert [each.name for each in (tmp_path / "node").iterdir()] == ["tree"]
    assert b"".join(bytes(os.pread(each, size, at)) for each, at, size in store.parts(1)) == payload.read(1)


def test_pieces_of_an_interrupted_push_count_if_their_bytes_are_right(payload: Payload, tmp_path: Path) -> None:
    first = opened(payload)
    first.write(0, payload.read(0))
    first.close()
    again = opened(payload)
    assert again.have == [True, False]
    again.close()
    staged = next((tmp_path / "node").glob(".pylaunch-push-*/0"))
    with staged.open("r+b") as file:
        file.write(b"changed")
    assert opened(payload).have == [False, False]


def test_a_byte_that_changes_on_the_disk_after_it_was_received_is_found(payload: Payload, tmp_path: Path) -> None:
    store = opened(payload)
    store.write(0, payload.read(0))
    store.write(1, payload.read(1))
    with next((tmp_path / "node").glob(".pylaunch-push-*/0")).open("r+b") as file:
        file.write(b"changed")
    with pytest.raises(StoreError, match="another content on the disk"):
        store.prove()


def test_no_link_leads_out_of_the_destination(payload: Payload, tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "node/tree").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not a directory"):
        opened(payload)
    (tmp_path / "node/tree").unlink()
    store = opened(payload)
    store.write(0, payload.read(0))
    store.write(1, payload.read(1))
    (tmp_path / "node/tree").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not a directory"):
        store.finish()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_second_transfer_of_the_same_files_is_refused_until_the_first_ends(
    payload: Payload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_store, "BUSY_S", 0.1)
    first, second = opened(payload), PieceStore(order(payload))
    first.write(0, payload.read(0))
    with pytest.raises(StoreError, match="another transfer of the same files is under way"):
        second.open()
    first.close()  # As at its end without the second piece.
    second.open()
    assert second.have == [True, False]


def test_a_directory_of_pieces_that_others_may_enter_is_refused(payload: Payload, tmp_path: Path) -> None:
    opened(payload).close()
    next((tmp_path / "node").glob(".pylaunch-push-*")).chmod(0o750)
    with pytest.raises(StoreError, match="not private to this user"):
        opened(payload)
    (tmp_path / "node").chmod(0o777)
    with pytest.raises(StoreError, match="chmod o-w"):
        opened(payload)


def test_pieces_that_nobody_pushes_any_more_are_removed(payload: Payload, tmp_path: Path) -> None:
    old, new = tmp_path / "node/.pylaunch-push-0", tmp_path / "node/.pylaunch-push-1"
    for directory in (old, new):
        directory.mkdir(parents=True)
    os.utime(old, (0, new.stat().st_mtime - ABANDONED_S - 60))
    opened(payload)
    assert not old.exists()
    assert new.exists()


def asked(port: int, identity: str, piece: int) -> tuple[bytes, bytes]:
    """Return what a peer with `identity` receives, and the bytes on the wire."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context(identity, ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, outgoing)
    found, wire, is_asked = bytearray(), bytearray(), False
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        while True:
            try:
                if not is_asked:
                    tls.do_handshake()
                    is_asked = tls.write(struct.pack("!I", piece)) > 0
                while chunk := tls.read(1 << 16):
                    found += chunk
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                break
            with contextlib.suppress(ConnectionError):
                peer.sendall(outgoing.read())
                if chunk := peer.recv(1 << 16):
                    wire += chunk
                    incoming.write(chunk)
                    continue
            break
    return bytes(found), bytes(wire)


def test_a_peer_gets_what_is_here_with_the_certificate_of_the_push_alone(payload: Payload) -> None:
    store = opened(payload)
    store.write(1, payload.read(1))
    port = PieceNode(order(payload), store).listen()
    content, wire = asked(port, IDENTITY, 1)
    assert content == payload.read(1)
    assert len(wire) > len(content)
    assert content[:64] not in wire
    assert asked(port, IDENTITY, 0)[0] == b""
    assert asked(port, IDENTITY, 1 << 31)[0] == b""
    assert asked(port, FOREIGN, 1)[0] == b""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as stranger:
        stranger.sendall(struct.pack("!I", 1))
        assert content[:64] not in stranger.recv(1 << 16)


def test_a_peer_with_another_certificate_delivers_nothing(payload: Payload) -> None:
    store = opened(payload)
    store.write(1, payload.read(1))
    port = PieceNode({**order(payload), "identity": FOREIGN}, store).listen()
    assert asked(port, IDENTITY, 1)[0] == b""


def test_a_host_sends_no_more_than_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "sleep", waits.append)
    pace = pieces.SendingRate(1 << 20)
    for _ in range(3):
        pace.spend(pace.chunk)
    assert waits == [0.0, pace.chunk / (1 << 20), 2 * pace.chunk / (1 << 20)]
    pieces.SendingRate(0).spend(1 << 30)
    assert len(waits) == 3
