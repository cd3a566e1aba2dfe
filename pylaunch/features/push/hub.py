"""A repository of the Hugging Face Hub as the source of a push: one node downloads it, then has its files.

What the node reports is data: the directory of a cache, and a commit. The name of the copy follows from the command.
"""

import asyncio
import contextlib
import json
import posixpath
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from pylaunch.base.dataclass import dataclass
from pylaunch.broadcast.node_source import LEAVES_S, NodeFiles, NodeProgram, Path, Size, python_on
from pylaunch.broadcast.progress import SourceProgress
from pylaunch.broadcast.spread import until_interrupted
from pylaunch.errors import ClusterNotReadyError, PylaunchError, UsageError
from pylaunch.features.push import on_node
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.host_errors import error_lines
from pylaunch.model.diagnosis.host_hints import of_hosts
from pylaunch.model.hostset import fold
from pylaunch.model.secret import MASK
from pylaunch.model.text.sanitise import visible_line
from pylaunch.probe.program import program, streamed
from pylaunch.transport.connections import connector_of
from pylaunch.transport.descriptors import allow_hosts
from pylaunch.transport.handshakes import awaited_turn

LONGEST_TEXT = 300
_PART = r"\w(?:[\w.-]{0,94}\w)?"
_WORD = re.compile(rf"(?:([^:/]+):)?hf:(datasets/)?((?:{_PART}/)?{_PART})(?:@(\w[\w./-]{{0,127}}))?", re.ASCII)
_FORBIDDEN = re.compile(r"--|\.\.|//|/\.|/$|\.lock(?:/|$)")
"""Not in the name of a repository of the hub, or of a revision of git."""

Failure = Literal["gated", "absent", "denied", "full", "offline", "unreached", "other"]
_WITH_TOKEN = "the same command with --secret HF_TOKEN"
_FAILURES: Mapping[Failure, tuple[str, str]] = {
    "gated": ("{it} is gated, and {who} has no access", f"accept its terms on the hub, then {_WITH_TOKEN}"),
    "absent": ("no {it} at {revision} that {who} may see", f"check the name; if it is private: {_WITH_TOKEN}"),
    "denied": ("the hub refuses {who} for {it}", f"hf auth login on {{host}}, or {_WITH_TOKEN}"),
    "full": ("no space for {it}", "name a DEST with more space: df -h on {host}"),
    "offline": ("HF_HUB_OFFLINE is set for the login", "unset it there"),
    "unreached": ("it does not reach the hub", "curl -I https://huggingface.co there; its HF_ENDPOINT names a mirror"),
    "other": ("{it} was not downloaded", "the same command continues"),
}
"""Message and hint of each kind of failure."""


class _HubMessage(msgspec.Struct):
    """Message of `on_node`."""

    python: str | None = None
    tried: list[str] = []
    at: Size = 0
    of: Size = 0
    snapshot: tuple[Path, Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]] | None = None
    error: tuple[Failure, str] | None = None


@dataclass(frozen=True)
class HubRepository:
    """A model or a dataset of the hub, at one revision."""

    kind: str
    name: str
    revision: str
    node: str | None
    """Name of the node that is to download it; None for the first one that can."""


@dataclass(frozen=True)
class HubSnapshot:
    """A revision of a repository in the cache of one node."""

    files: NodeFiles
    base: str
    """Directory for the copies, which ends with a slash."""

    cache: str
    """The same on the node, as an absolute path."""

    path: str
    """Directory on the node with the files of the revision."""


def repository(word: str) -> HubRepository | None:
    """Return the repository that `[NODE:]hf:…` names, None for a word that names files. Raises UsageError."""
    node, colon, rest = word.partition(":hf:")
    if not colon or "/" in node:
        rest = word.removeprefix("hf:")
    if rest == word or rest.startswith("/"):  # A path on a node of this name.
        return None
    found = _WORD.fullmatch(word)
    if found is None or _FORBIDDEN.search(rest):
        hint = "hf:ORG/MODEL, hf:ORG/MODEL@REVISION or hf:datasets/ORG/NAME"
        raise UsageError(f"{visible_line(word)}: no name of a repository of the hub", hint=hint)
    return HubRepository("dataset" if found[2] else "model", found[3], found[4] or "main", found[1])


def download(
    wanted: HubRepository, cluster: Cluster, cache: str, token: str | None,
    on_progress: Callable[[SourceProgress], None],
) -> HubSnapshot:  # fmt: skip
    """Download `wanted` on the first host of `cluster` with huggingface_hub, into `cache`, or that of its login for "".
    Raises UsageError, ClusterNotReadyError, and KeyboardInterrupt."""

    async def work() -> HubSnapshot:
        nodes: list[NodeProgram] = []
        try:
            node = await _first_with_hub(cluster, nodes)
            script = program(on_node.download, wanted.kind, wanted.name, wanted.revision, cache)
            with contextlib.suppress(ConnectionError):  # The next message has the reason.
                await node.child.send(streamed(script) + json.dumps({"token": token}).encode() + b"\n")
            found, commit = await _downloaded(node, wanted, token, on_progress)
        finally:
            await asyncio.gather(*(node.child.leave(LEAVES_S) for node in nodes))

        def serving(sources: Sequence[tuple[str, str]]) -> bytes:
            return program(on_node.serve_snapshot, [*sources], wanted.revision, commit)

        base, name = posixpath.join(cache or found, ""), f"{wanted.kind}s--{wanted.name.replace('/', '--')}"
        files = NodeFiles(node.host, cluster.known_hosts, (posixpath.join(found, name),), serving)
        return HubSnapshot(files, base, found, posixpath.join(found, name, "snapshots", commit))

    return asyncio.run(until_interrupted(work()))


async def _first_with_hub(cluster: Cluster, nodes: list[NodeProgram]) -> NodeProgram:
    """Ask all hosts at once; return the program on the first one that has huggingface_hub, which is left in `nodes`
    alone. Raises ClusterNotReadyError."""

    async def with_hub(host: Host) -> NodeProgram:
        async with awaited_turn(connector_of(host, cluster.known_hosts)):
            nodes.append(node := NodeProgram(host, *await python_on(host, cluster.known_hosts)))
            await _require_hub(node)
            return node

    allow_hosts(len(cluster.hosts))
    asked = [asyncio.create_task(with_hub(host)) for host in cluster.hosts]
    reasons, hints = {}, {}
    try:
        for host, answer in zip(cluster.hosts, asked, strict=True):
            try:
                chosen = await answer
            except PylaunchError as error:
                reasons[host.name], hints[host.name] = error.message.removeprefix(f"{host.name}: "), error.hint
            else:
                break
        else:
            what = f"{fold(cluster.names)}: no program that downloads from the hub"
            hint = "; ".join(of_hosts(hints)) or None
            raise ClusterNotReadyError(what, evidence=error_lines(cluster.hosts, reasons), hint=hint)
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    others, nodes[:] = [node for node in nodes if node is not chosen], [chosen]
    await asyncio.gather(*(node.child.end() for node in others))
    return chosen


async def _require_hub(node: NodeProgram) -> None:
    """Let the program on a node become an interpreter with huggingface_hub. Raises ClusterNotReadyError."""
    with contextlib.suppress(ConnectionError):
        await node.child.send(streamed(program(on_node.become_hub_python, node.host.rank_python)))
    message = await node.next_message(_HubMessage)
    if not message.python:
        tried = visible_line(", ".join(message.tried))[:LONGEST_TEXT]
        hint = f"{node.host.rank_python} -m pip install huggingface_hub on the host that is to download"
        if node.host.python is None:
            hint = "add huggingface_hub to requirements.txt: pylaunch env lock requirements.txt && pylaunch provision"
        raise ClusterNotReadyError(f"huggingface_hub is in none of {tried}", hint=hint)


async def _downloaded(
    node: NodeProgram, wanted: HubRepository, token: str | None, on_progress: Callable[[SourceProgress], None]
) -> tuple[str, str]:
    """Follow the download to its end; return the cache and the commit. Raises UsageError and ClusterNotReadyError."""
    begun, name = time.monotonic(), node.host.name
    while (message := await node.next_message(_HubMessage)).snapshot is None:
        if message.error is not None:
            raise failure(wanted, name, token, *message.error)
        on_progress(SourceProgress(name, message.at, time.monotonic() - begun, "downloaded", message.of))
    cache = message.snapshot[0]
    if not cache.startswith("/") or posixpath.normpath(cache) != cache or visible_line(cache) != cache:
        raise node.not_understood("its cache is no absolute path")
    return message.snapshot


def failure(wanted: HubRepository, host: str, token: str | None, kind: Failure, text: str) -> PylaunchError:
    """Return the error for a download that `host` reports as failed, with `text` of huggingface_hub."""
    who = "HF_TOKEN" if token else f"the login of {host}"
    fields = {"it": f"{wanted.kind} {wanted.name}", "revision": wanted.revision, "who": who, "host": host}
    what, hint = (each.format(**fields) for each in _FAILURES[kind])
    shown = visible_line(text.replace(token, MASK) if token else text)[:LONGEST_TEXT]
    return (UsageError if kind == "absent" else ClusterNotReadyError)(f"{host}: {what}", evidence=[shown], hint=hint)
