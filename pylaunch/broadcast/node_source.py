"""Files of one node that the others are to have: its program describes them, and serves them to the others.

What it says is data: paths stay below the names that the copies have, and the hosts compare every piece and every file.
"""

import contextlib
import datetime
import json
import time
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pylaunch.agent.piped.piece_source import MOST_FILES, MOST_PIECES, piece_size
from pylaunch.base.dataclass import dataclass
from pylaunch.broadcast.payload import Payload
from pylaunch.broadcast.progress import SourceProgress
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Host
from pylaunch.model.manifest import File, SymbolicLink
from pylaunch.model.text.sanitise import visible_line
from pylaunch.probe.answers import NotAnAnswerError, decoded
from pylaunch.probe.program import STREAMED, streamed
from pylaunch.transport.connections import connector_of, why_not_reached
from pylaunch.transport.connector import Connector
from pylaunch.transport.process import Child, describe_exit, last_line, spawn
from pylaunch.transport.waiting import patience

ANSWERS_S = 60.0
"""For the connection and for each message; a node reports once a second."""

STUCK_S = 300.0
"""A node that reads no byte for this long is given up."""

LONGEST_REASON = 500
LEAVES_S = 3.0

ALWAYS = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 12, 31)  # noqa: DTZ001 - x509 takes UTC
"""Validity: clocks of hosts may be wrong, and no host keeps the certificate after the broadcast."""

T = TypeVar("T")
Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 60)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class _Port(msgspec.Struct):
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class SourceMessage(msgspec.Struct):
    """Message of the node (`agent.piped.pieces.serve`)."""

    directories: list[Path] = []
    files: list[tuple[Path, Annotated[int, msgspec.Meta(ge=0, le=0o777)], Size, Digest]] = []
    links: list[tuple[Path, Path]] = []
    hashes: list[Digest] = []
    ready: _Port | None = None
    at: Size = 0
    error: str | None = None


@dataclass(frozen=True)
class NodeFiles:
    """Files of one node, by path there."""

    host: Host
    known_hosts: str | None
    paths: tuple[str, ...]


class NodeProgram:
    """A program on a node that sends JSON lines."""

    def __init__(self, host: Host, connector: Connector, child: Child) -> None:
        self.host = host
        self.child = child
        self._connector = connector

    async def next_message(self, kind: type[T]) -> T:
        """Return the next message. Raises ClusterNotReadyError."""
        name = self.host.name
        try:
            async with patience(ANSWERS_S):
                while (line := await self.child.readline()) and not line.startswith(b"{"):
                    pass  # What a login shell prints.
        except TimeoutError:
            raise ClusterNotReadyError(f"{name}: no message for {ANSWERS_S:g} s", hint=f"check {name}") from None
        if not line:
            end = await why_program_ended(self.child, self._connector)
            raise ClusterNotReadyError(f"{name}: {end}", hint=end.hint or "the same command sends the rest")
        try:
            return decoded(line, kind)
        except NotAnAnswerError as error:
            raise self.not_understood(str(error)) from None

    def not_understood(self, why: str) -> ClusterNotReadyError:
        """Return the error for a message that is not as it should be."""
        return ClusterNotReadyError(f"{self.host.name}: its message is not understood: {visible_line(why)[:300]}")


class SourceProgram(NodeProgram):
    """The program on the node while it serves."""

    def __init__(self, host: Host, connector: Connector, child: Child, rate: int) -> None:
        super().__init__(host, connector, child)
        self.rate = rate
        self.identity = new_identity()
        self.port = 0
        self._begun = self._moved_at = time.monotonic()
        self._at = 0

    async def described(
        self, script: bytes, base: str, names: Sequence[str], on_progress: Callable[[SourceProgress], None]
    ) -> Payload:
        """Start `script`, and return the payload once it has hashed all files. Raises UsageError for files that it
        cannot read, and ClusterNotReadyError."""
        order = json.dumps({"identity": self.identity, "rate": self.rate}).encode()
        messages: list[SourceMessage] = []
        entries = 0
        with contextlib.suppress(ConnectionError):  # `message` has the reason.
            await self.child.send(streamed(script) + order + b"\n")
        while not self.port:
            message = await self.message()
            self.port = message.ready.port if message.ready is not None else 0
            if some := len(message.files) + len(message.directories) + len(message.links) + len(message.hashes):
                messages.append(message)
            entries += some
            if entries > MOST_FILES + MOST_PIECES:
                raise self.not_understood("it describes more files than a push may have")
            on_progress(SourceProgress(self.host.name, self._at, time.monotonic() - self._begun))
        try:
            return payload_of(messages, base, names)
        except NotAnAnswerError as error:
            raise self.not_understood(str(error)) from None

    async def keep(self) -> None:
        """Let the program know that this machine is there, until it ends. Raises UsageError for files that changed, and
        ClusterNotReadyError."""
        while True:
            with contextlib.suppress(ConnectionError):
                await self.child.send(b"{}\n")
            self._moved_at = time.monotonic()
            await self.message()

    async def message(self) -> SourceMessage:
        """Return the next message. Raises UsageError for files that cannot be read, and ClusterNotReadyError."""
        name, message = self.host.name, await self.next_message(SourceMessage)
        if message.error is not None:
            what = visible_line(message.error)[:LONGEST_REASON]
            raise UsageError(f"{name}: {what}", hint=f"push again when the files are there on {name} and do not change")
        if message.at > self._at:
            self._at, self._moved_at = message.at, time.monotonic()
        if time.monotonic() - self._moved_at > STUCK_S:
            raise ClusterNotReadyError(f"{name}: it read nothing for {STUCK_S:g} s", hint="does its disk answer?")
        return message


class HostFailedError(Exception):
    """A host cannot receive or serve the files, with the reason."""

    def __init__(self, reason: str, hint: str | None = None, *, is_unreachable: bool = False) -> None:
        super().__init__(reason)
        self.hint = hint
        self.is_unreachable = is_unreachable


async def why_program_ended(child: Child, connector: Connector) -> HostFailedError:
    """Wait for the end of a program that Python reads from its stdin, and return why it ended."""
    ended = await child.leave(LEAVES_S)
    if (failure := await why_not_reached(connector, ended)) is not None:
        return HostFailedError(failure.reason, failure.hint, is_unreachable=True)
    if ended.returncode in (126, 127):
        return HostFailedError(f"no Python at {ended.argv[-len(STREAMED) - 1]}", "it needs Python 3.8 or newer")
    return HostFailedError(f"its program ended: {last_line(ended.stderr, default=describe_exit(ended.returncode))}")


def new_identity() -> str:
    """Return a new private key and its self-signed certificate, as PEM: all hosts of one broadcast present it to each
    other, and nobody else has it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pylaunch broadcast")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), *ALWAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()


async def started(files: NodeFiles, rate: int) -> SourceProgram:
    """Start Python on the node; the caller ends it. Raises ProgramNotFoundError."""
    return SourceProgram(files.host, *await python_on(files.host, files.known_hosts), rate)


async def python_on(host: Host, known_hosts: str | None) -> tuple[Connector, Child]:
    """Start Python on a host, for a streamed program. Raises ProgramNotFoundError."""
    connector = connector_of(host, known_hosts)
    return connector, await spawn(connector.argv((host.agent_python, *STREAMED)))


def payload_of(messages: Sequence[SourceMessage], base: str, names: Sequence[str]) -> Payload:
    """Return what a node describes, for `base` on the hosts. Raises NotAnAnswerError for a path outside `names`, one
    that is there twice or has no directory, and for pieces that do not fit the files."""
    files = tuple(File(*each) for message in messages for each in message.files)
    links = tuple(SymbolicLink(*each) for message in messages for each in message.links)
    directories = tuple(each for message in messages for each in message.directories)
    hashes = tuple(bytes.fromhex(each) for message in messages for each in message.hashes)
    known: set[str] = set()
    parents: set[str] = set()
    for path in (*directories, *(file.path for file in files), *(link.path for link in links)):
        parent, _, name = path.rpartition("/")
        if name in ("", ".", "..") or "\0" in path or path in known:
            raise NotAnAnswerError(f"{path!r} is no path, or is there twice")
        if parent not in parents if parent else path not in names:
            raise NotAnAnswerError(f"{path!r} is in no directory that it describes")
        known.add(path)
        if len(known) <= len(directories):
            parents.add(path)
    size = sum(file.size for file in files)
    piece = piece_size(size)
    if len(hashes) != -(-size // piece):
        raise NotAnAnswerError(f"{len(hashes)} pieces for {size} bytes")
    return Payload(base, (), files, directories, links, piece, hashes)


def not_served(who: str, source: Host, why: str) -> tuple[str, str]:
    """Return the reason and the hint for a host that gets no piece from the node that has the files."""
    hint = f"hosts connect to each other on ports that the kernel chooses; allow {who} to reach {source.name}"
    return f"no piece from {source.name} at {source.rank_address}: {visible_line(why)[:LONGEST_REASON]}", hint
