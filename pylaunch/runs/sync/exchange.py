"""Content that nodes lack leaves the controller once, and nodes pass it on, where that saves more than it costs.

The nodes ask for content as always. Once all have asked, the controller decides (`shared_content`). What nodes then
receive from each other, they do not receive from the controller; a node that fails in this gets everything from it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from pylaunch.broadcast.payload import stored_content
from pylaunch.broadcast.progress import lines_of_progress
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.host_errors import alike_errors
from pylaunch.model.text.size import shown_size
from pylaunch.runs.sync.tree import Tree
from pylaunch.transport.descriptors import allow_hosts

LEAST_SAVED = 32 << 20
"""Bytes that the controller must save: programs on all nodes and connections between them take a second or more
(measurements: "Push")."""

SOURCES = 4
"""Nodes that lack nothing and pass content on to the others."""

OPEN_FILES = 16
"""Open files for one host: its agent's connection, one that waits for content, and one that is being started."""

ALL_ASKED_S = 30.0
"""A node that takes longer to ask for content gets all of it from the controller, at once."""


def shared_content(
    sizes: Sequence[int], missing: Mapping[str, frozenset[int]]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the indices of the content that nodes pass on, and the nodes that take part; nothing where it is not worth
    it. `missing` are the indices that each node lacks."""
    lacking = [name for name, lacks in missing.items() if lacks]
    wanted: frozenset[int] = frozenset().union(*missing.values())
    nowhere: frozenset[int] = wanted.intersection(*missing.values())
    saved = sum(sizes[each] for name in lacking for each in missing[name]) - sum(sizes[each] for each in nowhere)
    if saved < LEAST_SAVED:
        return (), ()
    others = [name for name, lacks in missing.items() if not lacks]
    return tuple(sorted(wanted)), (*lacking, *others[:SOURCES])


class CodeExchange:
    """The exchange of one tree between nodes. Each node of `cluster` calls `remaining` or `without`, once."""

    def __init__(self, tree: Tree, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._tree = tree
        self._cluster = cluster
        self._say = say
        self._awaited = set(cluster.names)
        self._missing: dict[str, frozenset[int]] = {}
        self._have: frozenset[str] = frozenset()
        self._all_asked = asyncio.Event()
        self._is_decided = False
        self._passing = asyncio.ensure_future(self._pass_on())

    async def remaining(self, name: str, missing: list[int]) -> list[int]:
        """Return the indices of the content that `name` still lacks once nodes have passed on what they can."""
        if not self._is_decided:
            self._missing[name] = frozenset(missing)
            self.without(name)
            await asyncio.shield(self._passing)
        return [] if name in self._have else missing

    def without(self, name: str) -> None:
        """Wait for `name` no longer."""
        self._awaited.discard(name)
        if not self._awaited:
            self._all_asked.set()

    async def end(self) -> None:
        """Cancel what is under way."""
        self._passing.cancel()
        await asyncio.wait({self._passing})

    async def _pass_on(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALL_ASKED_S):
                await self._all_asked.wait()
        self._is_decided = True
        wanted = list(self._tree.manifest.blobs.values())
        content, names = shared_content([file.size for file in wanted], self._missing)
        if not content:
            return
        from pylaunch.broadcast.spread import spread  # noqa: PLC0415 - it takes 50 ms, and most starts ship little

        files = {self._tree.directory / wanted[each].path: wanted[each] for each in content}
        try:
            allow_hosts(len(self._cluster.hosts), OPEN_FILES)
            payload = await asyncio.to_thread(stored_content, files)
            progress = lines_of_progress(lambda line: self._say(f"shipping code: {line}"))
            sources = [name for name in names if not self._missing[name]]
            result = await spread(self._cluster.only(names), payload, sources=sources, on_progress=progress)
            self._have = frozenset(name for name, received in result.hosts.items() if received.error is None)
            sent = sum(received.sent for received in result.hosts.values())
            if lacked := sum(wanted[each].size for name in self._have for each in self._missing[name]):
                self._say(f"code: this machine sent {shown_size(sent)}; the nodes lacked {shown_size(lacked)}")
            reasons = {name: (received.error,) for name, received in result.hosts.items() if received.error is not None}
            for hosts, reason in alike_errors(self._cluster.hosts, reasons):
                self._say(f"note: {hosts}: no code from other nodes, so this machine sends it: {reason}")
            for remark in result.remarks:
                self._say(remark)
        except UsageError:
            pass  # The controller sends content next, and names the file that changed.
        except ClusterNotReadyError as error:
            self._say(f"note: nodes pass on no code, so this machine sends it to each: {error.message}")
