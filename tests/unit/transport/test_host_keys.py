import contextlib
import socket

import paramiko
import pytest

from pylaunch.transport.host_keys import (
    HostKey,
    public_key,
    server_name,
    shown_key,
)

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIICDgsREyglki0RcQHr7E/qBR5NLWeqRPhlgwG1H4vlS"


def key(server: str, blob: str = BLOB) -> HostKey:
    return HostKey(server, "ssh-ed25519", blob)


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("n1", None, "n1"),
        ("N1", 22, "n1"),
        ("10.0.0.1", 2222, "[10.0.0.1]:2222"),
        ("fe80::1", 2222, "[fe80::1]:2222"),
        ("fe80::1", 22, "fe80::1"),
    ],
)
def test_a_server_is_named_as_openssh_names_it(address: str, port: int | None, expected: str) -> None:
    assert server_name(address, port) == expected


def test_a_fingerprint_is_that_of_ssh_keygen() -> None:
    assert key("n1").fingerprint == "SHA256:/YYQWXo2qYUwsiEm3fnHvJrDXOIpcpS/iEr0bW1UTBs"


@pytest.mark.parametrize("text", ["", "ssh-ed25519", "ssh-ed25519 not-base64!", f"ssh-rsa {BLOB}", "# a comment"])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an SSH public key"):
        public_key("n1", text)


def test_a_server_that_accepts_connections_and_says_nothing_is_named_as_such() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
        contextlib.closing(paramiko.Transport(connection)) as transport,
        pytest.raises(TimeoutError, match=r"its SSH server says nothing for 0\.2 s"),
    ):
        shown_key(transport, 0.2)
