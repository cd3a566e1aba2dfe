"""Learn the host keys of hosts into the known_hosts file of the project, when a person decides to trust them.

offer = scan(cluster)                 asks every host for its key; trusts none
accept(offer.acceptable(…), …)        writes those that the person agreed to

OpenSSH's configuration decides address and port of a host (`ssh -G`). paramiko asks servers that this machine reaches
directly, many at a time in one process; OpenSSH itself asks those behind a jump host or a ProxyCommand. Only the key
exchange takes place: no user name is sent and no command runs.

`known_keys` and `write_known_hosts` read and replace the keys of a host in known_hosts files; ssh-keygen finds them.
"""

import base64
import hashlib
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, PylaunchError, UsageError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.diagnosis.host_errors import error_lines, of_hosts
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.transport import process
from pylaunch.transport.connections import AWAITED
from pylaunch.transport.openssh.failures import explain_failure
from pylaunch.transport.openssh.sharing import OWN_COMMAND, SSH_PORT, config_word, destination


@dataclass(frozen=True)
class HostKey:
    """A public key of an SSH server."""

    place: str
    """The server as known_hosts names it; see `server_name`."""

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
    """Return the key in a public-key file (`ssh-ed25519 AAAA… comment`) as the key of `server`.

    `server` is as `server_name` returns it. Raises ValueError for anything else.
    """
    kind, blob = [*text.split(), "", ""][:2]
    if not _is_key(kind, blob):
        raise ValueError(f"expected an SSH public key, got {text.strip()!r}")
    return HostKey(server, kind, blob)


def known_keys(file: Path, server: str) -> tuple[HostKey, ...]:
    """Return the keys that the known_hosts file `file` accepts for `server`, without certificate authorities."""
    return tuple(dict.fromkeys(key for _, key in _entries(file, server)))


def _entries(file: Path, server: str) -> Iterator[tuple[int, HostKey]]:
    """Yield the keys for `server` that ssh-keygen finds in `file`, each with the number of its line."""
    if not read_known_hosts(file):
        return
    found = process.run(("ssh-keygen", "-F", server, "-f", str(file)), timeout_s=ANSWER_TIMEOUT_S)
    if found.returncode != NO_KEY:
        found.checked()
    lines = iter(found.stdout.split("\n"))
    for note, line in zip(lines, lines, strict=False):  # "# Host n1 found: line 7", and the line.
        kind, blob = line.split()[1:3]
        if _is_key(kind, blob) and not line.startswith("@"):
            yield int(note.split()[5]), HostKey(server, kind, blob)


def write_known_hosts(path: Path, keys: Sequence[HostKey]) -> None:
    """Make `keys` the only keys of their servers in `path`; patterns stay. Readers see the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    *lines, last = read_known_hosts(path).split("\n")  # As ssh-keygen counts them: a form feed ends no line.
    lines += [last] if last else []
    gone = {number for key in keys for number, _ in _entries(path, key.place)}
    places = {key.place for key in keys}
    shorter = (_without(line, places) if number in gone else line for number, line in enumerate(lines, 1))
    kept = [line for line in shorter if line is not None]
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", errors="surrogateescape", delete=False
    ) as aside:
        aside.write("".join(f"{line}\n" for line in (*kept, *(key.line for key in keys))))
    Path(aside.name).chmod(0o644)
    Path(aside.name).replace(path)


def _without(line: str, places: Set[str]) -> str | None:
    """Return the entry `line`, which names one of `places`, for its other names; None where it has none."""
    names, rest = line.split(maxsplit=1)
    if set("*?") & set(names):
        return line
    others = [name for name in names.split(",") if name.lower() not in places and not name.startswith("|")]
    return f"{','.join(others)} {rest}" if others else None


def read_known_hosts(path: Path) -> str:
    """Return the text of `path`; "" when there is no such file. Bytes that are not UTF-8 survive a write.

    Raises UsageError for a file that cannot be read: it does not say which keys are trusted.
    """
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=f"ls -ld {quoted((str(path),))}") from None


def _is_key(kind: str, blob: str) -> bool:
    try:
        return base64.b64decode(blob, validate=True)[4 : 4 + len(kind)] == kind.encode() and kind != ""
    except ValueError:  # Not base64, or not even ASCII.
        return False


ANSWER_TIMEOUT_S = 10
NO_KEY = 1
"""Exit status of ssh-keygen for a server that the file does not name."""

AT_ONCE = 32
_RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")

Known = Callable[[str], Sequence[HostKey]]
"""Returns the keys that are already trusted for a server, named as in known_hosts."""


@dataclass(frozen=True)
class Route:
    """Address and port that OpenSSH connects to for a host, after its configuration."""

    address: str
    port: int
    place: str
    """Name of the server in known_hosts, `HostKeyAlias` included."""

    proxied: bool

    @classmethod
    def parse(cls, text: str) -> "Route":
        """Return the route in the output of `ssh -G`."""
        settings = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
        address, port = settings["hostname"], int(settings["port"])
        alias = settings.get("hostkeyalias")
        proxied = any(settings.get(name, "none") != "none" for name in ("proxyjump", "proxycommand"))
        return cls(address, port, alias or server_name(address, port), proxied)


@dataclass(frozen=True)
class OfferedKey:
    """The key that a host presents, and the keys that were trusted for it before."""

    host: str
    key: HostKey
    before: tuple[HostKey, ...]

    @property
    def state(self) -> str:
        """One of "new", "trusted" or "changed"."""
        if not self.before:
            return "new"
        return "trusted" if self.key in self.before else "changed"


@dataclass(frozen=True)
class Silent:
    """A host that presented no key, the reason, and what to do about it."""

    host: str
    reason: str
    hint: str = "see that the host is up, and that its name, address and port are right"


def fetched(hosts: Sequence[Host], known: Known) -> list[OfferedKey | Silent]:
    """Fetch the keys of all `hosts`, several at a time; the result has the order of `hosts`.

    A key type that is already known is preferred, so that the keys can be compared; the default is Ed25519.
    """
    # paramiko logs what it also raises, to stderr where no handler is set.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)

    def ask(host: Host) -> OfferedKey | Silent:
        with AWAITED.hosts([host.name], ANSWER_TIMEOUT_S):
            return _ask(host, known)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return list(pool.map(ask, hosts))


def _ask(host: Host, known: Known) -> OfferedKey | Silent:
    try:
        asked = process.run(("ssh", "-G", *destination(host)), timeout_s=ANSWER_TIMEOUT_S)
        if not asked.ok:
            return Silent(host.name, explain_failure(host, asked.stderr).reason)
        route = Route.parse(asked.stdout)
        before = tuple(known(route.place))
        kinds = [key.kind for key in before]
        key = _through_openssh(host, route, kinds) if route.proxied else _directly(route, kinds)
    except (OSError, EOFError, ValueError, paramiko.SSHException, PylaunchError) as error:
        # ValueError: no domain name, or an answer that paramiko cannot decode.
        reason = getattr(error, "strerror", None) or str(error) or "the server closed the connection"
        said = reason if host.address == host.name else f"{host.address}: {reason}"
        return Silent(host.name, said, getattr(error, "hint", None) or Silent.hint)
    return OfferedKey(host.name, key, before)


def _directly(route: Route, kinds: Sequence[str]) -> HostKey:
    with socket.create_connection((route.address, route.port), timeout=ANSWER_TIMEOUT_S) as connection:
        transport = paramiko.Transport(connection)
        try:
            security = transport.get_security_options()
            offered = security.key_types
            security.key_types = tuple(dict.fromkeys([*(a for a in _algorithms(kinds) if a in offered), *offered]))
            key = shown_key(transport, ANSWER_TIMEOUT_S)
        finally:
            transport.close()
    return HostKey(route.place, key.get_name(), key.get_base64())


def shown_key(transport: paramiko.Transport, within_s: float) -> paramiko.PKey:
    """Return the host key that a server shows. Raises OSError for a silent server, SSHException for other failures."""
    transport.banner_timeout = 2 * within_s  # The time limit below ends the wait.
    transport.start_client(timeout=within_s)
    if transport.is_active() and not transport.initial_kex_done:
        raise TimeoutError(f"it accepts connections, and its SSH server says nothing for {within_s:g} s")
    return transport.get_remote_server_key()


def _through_openssh(host: Host, route: Route, kinds: Sequence[str]) -> HostKey:
    """Let OpenSSH write the key to a temporary known_hosts file."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-scan-") as directory:
        note = Path(directory) / "known_hosts"
        asked = process.run(_key_exchange(host, note, kinds), timeout_s=3 * ANSWER_TIMEOUT_S)
        keys = known_keys(note, route.place)
    if not keys:
        failure = explain_failure(host, asked.stderr)
        raise PylaunchError(failure.reason, hint=failure.hint)
    return keys[0]


def _key_exchange(host: Host, note: Path, kinds: Sequence[str]) -> Argv:
    algorithms = ",".join(_algorithms(kinds) or ("ssh-ed25519",))
    return (
        "ssh", "-T",
        "-o", "ControlPath=none",
        "-o", "BatchMode=yes",
        "-o", "PreferredAuthentications=none",
        "-o", "StrictHostKeyChecking=accept-new",
        "-o", f"UserKnownHostsFile={config_word(str(note))}",
        "-o", f"GlobalKnownHostsFile={os.devnull}",
        "-o", f"HostKeyAlgorithms=^{algorithms}",
        "-o", "HashKnownHosts=no",
        "-o", "UpdateHostKeys=no",
        "-o", "LogLevel=INFO",
        "-o", f"ConnectTimeout={ANSWER_TIMEOUT_S}",
        *OWN_COMMAND, *destination(host), "true",
    )  # fmt: skip


def _algorithms(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the signature algorithms of these key types."""
    return tuple(name for kind in kinds for name in (_RSA_SIGNATURES if kind == "ssh-rsa" else (kind,)))


@dataclass(frozen=True)
class KeyOffer:
    """Keys of all hosts that are reached over SSH."""

    hosts: tuple[Host, ...]
    keys: tuple[OfferedKey, ...]
    silent: tuple[Silent, ...]
    """Hosts that presented no key."""

    file: Path
    """The known_hosts file of the project."""

    def acceptable(self, *, replace: bool) -> tuple[OfferedKey, ...]:
        """Return new keys, and with `replace` those that differ from a trusted one."""
        return tuple(each for each in self.keys if each.state == "new" or (each.state == "changed" and replace))

    def raise_for_untrusted(self, *, replace: bool) -> None:
        """Raises one ClusterNotReadyError for all hosts without a trusted key."""
        changed = [each for each in self.keys if each.state == "changed" and not replace]
        evidence = error_lines(self.hosts, {each.host: each.reason for each in self.silent})
        for each in changed:
            before = ", ".join(f"{key.fingerprint} ({key.kind})" for key in each.before)
            evidence.append(
                f"{each.host}  trusted so far: {before}; shows now: {each.key.fingerprint} ({each.key.kind})"
            )
        if not evidence:
            return
        what = [
            f"no key from {fold(each.host for each in self.silent)}" if self.silent else "",
            f"the key changed of {fold(each.host for each in changed)}" if changed else "",
        ]
        names = fold(each.host for each in changed)
        raise ClusterNotReadyError(
            " and ".join(part for part in what if part),
            evidence=evidence,
            hint=f"if they were reinstalled, compare the fingerprints and run: pylaunch trust --replace --limit {names}"
            if changed
            else "; ".join(of_hosts({each.host: each.hint for each in self.silent})),
        )


def scan_keys(cluster: Cluster) -> KeyOffer:
    """Ask every host of `cluster` for its key. Raises UsageError when none is reached over SSH."""
    remote = tuple(host for host in cluster.hosts if host.connection is Connection.SSH)
    if cluster.known_hosts is None or not remote:
        raise UsageError("no host of the inventory is reached over SSH", hint="pylaunch trust -i INVENTORY")
    project = Path(cluster.known_hosts)
    answers = fetched(remote, lambda place: (*known_keys(project, place), *known_keys(_own_file(), place)))
    keys = tuple(answer for answer in answers if isinstance(answer, OfferedKey))
    return KeyOffer(remote, keys, tuple(answer for answer in answers if isinstance(answer, Silent)), project)


def accept(keys: Sequence[OfferedKey], file: Path) -> tuple[str, ...]:
    """Write `keys` to `file`; return the places whose old key the user's own file still trusts.

    Raises UsageError when it cannot be written.
    """
    try:
        write_known_hosts(file, [each.key for each in keys])
    except OSError as error:
        text = f"{file}: cannot be written: {error.strerror}"
        raise UsageError(text, hint=f"df {quoted((str(file.parent),))}; ls -ld {quoted((str(file.parent),))}") from None
    return tuple(sorted({each.key.place for each in keys if known_keys(_own_file(), each.key.place)}))


def _own_file() -> Path:
    return Path.home() / ".ssh" / "known_hosts"
