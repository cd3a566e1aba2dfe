"""Keys in known_hosts files, as ssh-keygen finds them."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.transport.host_keys import HostKey, accept, known_keys, write_known_hosts

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIICDgsREyglki0RcQHr7E/qBR5NLWeqRPhlgwG1H4vlS"
OTHER_BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIC64eTd3NJaQXqdWAgNrNqLmpqksCKEAUVWKw5LAz0Z2"
HASHED = "|1|c7Gyps773NxM2sXO6BapHLWvOc8=|w/IiAsymJd2F5GjxNloYhPS3/qc="
"""`n1`, as `ssh-keygen -H` writes it."""


def key(server: str, blob: str = BLOB) -> HostKey:
    return HostKey(server, "ssh-ed25519", blob)


@pytest.mark.parametrize(
    ("line", "server", "accepted"),
    [
        (f"n1,10.0.0.1 ssh-ed25519 {BLOB} comment", "10.0.0.1", True),
        (f"[10.0.0.1]:2222 ssh-ed25519 {BLOB}", "[10.0.0.1]:2222", True),
        (f"n*,!n1 ssh-ed25519 {BLOB}", "n1", False),
        (f"{HASHED} ssh-ed25519 {BLOB}", "n1", True),
        (f"@revoked n1 ssh-ed25519 {BLOB}", "n1", False),
        ("n1 ssh-ed25519 rubbish", "n1", False),
    ],
)
def test_a_line_accepts_a_server_when_openssh_would(tmp_path: Path, line: str, server: str, accepted: bool) -> None:
    (tmp_path / "known_hosts").write_text(f"not an entry\n{line}\n")
    assert known_keys(tmp_path / "known_hosts", server) == ((key(server),) if accepted else ())


def test_only_the_lines_of_the_servers_change(tmp_path: Path) -> None:
    file, others = tmp_path / "known_hosts", [
        "# kept by the network team, caf\udce9",
        f"n3 ssh-ed25519 {OTHER_BLOB} with a\x0cform feed",
        f"@cert-authority *.example.com ssh-ed25519 {OTHER_BLOB}",
        f"n? ssh-ed25519 {OTHER_BLOB}",
        "",
        "not an entry",
    ]  # fmt: skip
    own = [f"{names} ssh-ed25519 {OTHER_BLOB} rack 7" for names in ("n1,N4,10.0.0.1", "n1", HASHED)]
    file.write_text("\n".join([*others, *own]), errors="surrogateescape")

    write_known_hosts(file, [key("n1")])

    others.append(f"N4,10.0.0.1 ssh-ed25519 {OTHER_BLOB} rack 7")
    assert known_keys(file, "n3") == (key("n3", OTHER_BLOB),)
    assert file.read_text(errors="surrogateescape").split("\n") == [*others, f"n1 ssh-ed25519 {BLOB}", ""]


def test_a_new_file_has_the_keys_alone(tmp_path: Path) -> None:
    write_known_hosts(tmp_path / "known_hosts", [key("n1")])
    assert (tmp_path / "known_hosts").read_text() == f"n1 ssh-ed25519 {BLOB}\n"


def test_a_file_that_cannot_be_read_is_not_one_without_keys(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        known_keys(tmp_path, "n1")
    with pytest.raises(UsageError, match="cannot be written"):
        accept([], Path("/proc/known_hosts"))
