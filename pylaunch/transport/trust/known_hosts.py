"""Read the keys of a host from OpenSSH's known_hosts files, and replace them without touching other lines."""

import base64
import hashlib
import hmac
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from pylaunch.base.dataclass import dataclass

SSH_PORT = 22


@dataclass(frozen=True)
class HostKey:
    """A public key of an SSH server."""

    place: str
    """The server as known_hosts names it; see `place`."""

    kind: str
    """Type of the key, such as `ssh-ed25519`."""

    blob: str
    """The key itself, in base64."""

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -lf` prints it: `SHA256:…`."""
        digest = hashlib.sha256(base64.b64decode(self.blob)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """The key as a line of known_hosts."""
        return f"{self.place} {self.kind} {self.blob}"


def server_name(address: str, port: int | None = None) -> str:
    """Return the name of a server in known_hosts: the address alone on port 22, else `[address]:port`."""
    name = address.lower()
    return name if port in (None, SSH_PORT) else f"[{name}]:{port}"


def public_key(server: str, text: str) -> HostKey:
    """Return the key in a public-key file (`ssh-ed25519 AAAA… comment`) as the key of `server`, named as by `place`.

    Raises ValueError for anything else.
    """
    kind, blob = [*text.split(), "", ""][:2]
    if not _is_key(kind, blob):
        raise ValueError(f"expected an SSH public key, got {text.strip()!r}")
    return HostKey(server, kind, blob)


def keys_for(text: str, server: str) -> tuple[HostKey, ...]:
    """Return the keys that the known_hosts file `text` accepts for `server`, without certificate authorities."""
    entries = (_fields(line) for line in text.splitlines())
    keys = (
        HostKey(server, kind, blob) for names, kind, blob in entries if _is_key(kind, blob) and _accepts(names, server)
    )
    return tuple(dict.fromkeys(keys))


def replaced(text: str, keys: Iterable[HostKey]) -> str:
    """Return the known_hosts file `text` with `keys` as the only keys of their servers; other lines stay."""
    keys = tuple(keys)
    servers = {key.place for key in keys}
    kept = [line for line in (_without(line, servers) for line in text.splitlines()) if line is not None]
    return "".join(f"{line}\n" for line in (*kept, *(key.line for key in keys)))


def write_known_hosts(path: Path, keys: Iterable[HostKey]) -> None:
    """Make `keys` the only keys of their servers in `path`. Readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = replaced(read_known_hosts(path), keys)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", errors="surrogateescape", delete=False
    ) as aside:
        aside.write(text)
    Path(aside.name).chmod(0o644)
    Path(aside.name).replace(path)


def read_known_hosts(path: Path) -> str:
    """Return the text of `path`; "" when there is no such file. Bytes that are not UTF-8 survive a write."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""


def _fields(line: str) -> tuple[str, str, str]:
    """Return names, kind and key of a line; empty for comments, markers (`@revoked`) and malformed lines."""
    words = line.split()
    if len(words) < 3 or words[0].startswith(("#", "@")):
        return "", "", ""
    return words[0], words[1], words[2]


def _is_key(kind: str, blob: str) -> bool:
    try:
        return base64.b64decode(blob, validate=True)[4 : 4 + len(kind)] == kind.encode() and kind != ""
    except ValueError:  # Not base64, or not even ASCII.
        return False


def _accepts(names: str, server: str) -> bool:
    if names.startswith("|1|"):
        return _is_hash_of(names, server)
    patterns = names.lower().split(",")
    if any(pattern.startswith("!") and _matches(pattern[1:], server) for pattern in patterns):
        return False
    return any(_matches(pattern, server) for pattern in patterns)


def _matches(pattern: str, server: str) -> bool:
    # fnmatch has character classes, known_hosts has none: `[10.0.0.1]:2222` is literal.
    return fnmatchcase(server, pattern.replace("[", "[[]"))


def _is_hash_of(hashed: str, server: str) -> bool:
    try:
        _, _, salt, digest = hashed.split("|")
        expected = hmac.new(base64.b64decode(salt), server.encode(), hashlib.sha1).digest()
        return hmac.compare_digest(expected, base64.b64decode(digest))
    except ValueError:
        return False


def _without(line: str, servers: set[str]) -> str | None:
    """Return `line` without the entries for `servers`; None when no entry remains."""
    names, _, _ = _fields(line)
    if names.startswith("|1|"):
        return None if any(_is_hash_of(names, server) for server in servers) else line
    kept = [name for name in names.split(",") if name.lower() not in servers]
    if len(kept) == len(names.split(",")):
        return line
    return line.replace(names, ",".join(kept), 1) if kept else None
