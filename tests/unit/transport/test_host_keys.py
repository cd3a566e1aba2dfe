import contextlib
import socket
from pathlib import Path

import paramiko
import pytest

from pylaunch.transport.host_keys import (
    HostKey,
    keys_for,
    public_key,
    replaced,
    server_name,
    shown_key,
    write_known_hosts,
)

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIICDgsREyglki0RcQHr7E/qBR5NLWeqRPhlgwG1H4vlS"
OTHER_BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIC64eTd3NJaQXqdWAgNrNqLmpqksCKEAUVWKw5LAz0Z2"
HASHED = "|1|c7Gyps773NxM2sXO6BapHLWvOc8=|w/IiAsymJd2F5GjxNloYhPS3/qc="
"""`n1`, as `ssh-keygen -H` writes it."""


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


@pytest.mark.parametrize(
    ("line", "server", "accepted"),
    [
        (f"n1 ssh-ed25519 {BLOB}", "n1", True),
        (f"n1,10.0.0.1 ssh-ed25519 {BLOB} comment", "10.0.0.1", True),
        (f"[10.0.0.1]:2222 ssh-ed25519 {BLOB}", "[10.0.0.1]:2222", True),
        (f"[10.0.0.1]:2222 ssh-ed25519 {BLOB}", "10.0.0.1", False),
        (f"n* ssh-ed25519 {BLOB}", "n1", True),
        (f"n*,!n1 ssh-ed25519 {BLOB}", "n1", False),
        (f"{HASHED} ssh-ed25519 {BLOB}", "n1", True),
        (f"{HASHED} ssh-ed25519 {BLOB}", "n2", False),
        (f"|1|broken ssh-ed25519 {BLOB}", "n1", False),
        (f"@revoked n1 ssh-ed25519 {BLOB}", "n1", False),
        (f"# n1 ssh-ed25519 {BLOB}", "n1", False),
        ("n1 ssh-ed25519 rubbish", "n1", False),
    ],
)
def test_a_line_accepts_a_server_when_openssh_would(line: str, server: str, accepted: bool) -> None:
    assert keys_for(line, server) == ((key(server),) if accepted else ())


def test_only_the_entries_of_the_servers_change() -> None:
    text = "\n".join(
        [
            "# kept by the network team",
            f"n1,n2 ssh-ed25519 {OTHER_BLOB} shared",
            f"{HASHED} ssh-ed25519 {OTHER_BLOB}",
            f"n1 ecdsa-sha2-nistp256 {OTHER_BLOB}",
            f"@cert-authority *.example.com ssh-ed25519 {OTHER_BLOB}",
            "",
            "not an entry",
        ]
    )

    assert replaced(text, [key("n1")]).splitlines() == [
        "# kept by the network team",
        f"n2 ssh-ed25519 {OTHER_BLOB} shared",
        f"@cert-authority *.example.com ssh-ed25519 {OTHER_BLOB}",
        "",
        "not an entry",
        f"n1 ssh-ed25519 {BLOB}",
    ]


def test_bytes_that_are_no_text_survive_a_write(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"# caf\xe9\n")

    write_known_hosts(file, [key("n1")])

    assert file.read_bytes().startswith(b"# caf\xe9\n")


def test_a_server_that_accepts_connections_and_says_nothing_is_named_as_such() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as connection,
        contextlib.closing(paramiko.Transport(connection)) as transport,
        pytest.raises(TimeoutError, match=r"its SSH server says nothing for 0\.2 s"),
    ):
        shown_key(transport, 0.2)
