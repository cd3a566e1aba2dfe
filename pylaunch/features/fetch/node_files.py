"""Fetch: list files on the nodes of a run, choose, and bring those of several nodes side by side."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from pylaunch.agent.piped import run_files
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, PylaunchError, UsageError
from pylaunch.features.fetch.places import Fetched, NodeFile, choose_files, is_here, refuse_patterns, write_file
from pylaunch.model.cluster import Connection
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.text import typed_json
from pylaunch.model.text.quantity import counted, shown_size
from pylaunch.model.text.sanitise import visible_line
from pylaunch.probe.ask import ask, understood_all
from pylaunch.probe.program import FROM_STDIN, program
from pylaunch.transport import interrupts
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import running

NODES_AT_ONCE = 8
MOST = 10_000
"""Files of one node."""

SILENCE_S = 60.0
LONGEST_LINE = 512
SHOWN = 300
"""Characters of a reason from a node."""


Read = Callable[[int], Awaitable[bytes]]
"""Returns at most so many bytes of what a node sends; b"" at the end."""


class NodeStoppedError(PylaunchError):
    """A node sends no further file."""


class NotSentError(PylaunchError):
    """A node did not send a file, with its reason."""


@dataclass(frozen=True)
class FileResult:
    """Result for one file."""

    wanted: Fetched
    status: str
    """ "fetched", "present", "kept" (another file is here), "failed", or "planned" in a dry run."""

    reason: str = ""


@dataclass(frozen=True)
class FetchRequest:
    """Files to fetch, and their directory here."""

    plan: RunPlan
    patterns: Sequence[str]
    directory: Path
    is_dry: bool = False


@dataclass(frozen=True)
class FetchResult:
    """Results for all files."""

    request: FetchRequest
    files: Sequence[FileResult]
    failed: dict[str, str]
    """Reasons of nodes that did not answer."""

    notes: Sequence[str]

    def of(self, *statuses: str) -> list[FileResult]:
        """Return the files with one of these statuses."""
        return [each for each in self.files if each.status in statuses]


class _FileList(msgspec.Struct):
    files: list[NodeFile] = []
    is_cut: bool = False
    """There are more files than MOST."""

    error: str = ""


def fetch(request: FetchRequest, say: Callable[[str], None]) -> FetchResult:
    """Fetch the files; nothing here is replaced.

    Raises UsageError for a pattern, and where nothing matches; ClusterNotReadyError when no node answers.
    """
    refuse_patterns(request.patterns)
    plan = request.plan
    lists, failed = _lists(plan, request.patterns)
    reasons = [f"{host}: {why}" for host, why in failed.items()]
    if not lists:
        raise ClusterNotReadyError(f"no node of run {plan.run} lists its files", evidence=reasons)
    chosen, notes = choose_files({host: each.files[:MOST] for host, each in lists.items()})
    if cut := [host for host, each in lists.items() if each.is_cut]:
        notes.append(f"{fold(cut)}: more files match than are listed; a narrower pattern finds the others")
    if not chosen:
        raise UsageError(
            f"no file matches {' '.join(request.patterns)} in {plan.job.workdir} on {fold(lists)}",
            evidence=[*notes, *reasons],
            hint="'**' lists all files, --dry-run fetches none of them",
        )
    found = [_compared(request, each) for each in chosen]
    planned = [each.wanted for each in found if each.status == "planned"]
    if planned and not request.is_dry:
        say(f"fetching {shown_size(sum(each.file.size for each in planned))} in {counted(len(planned), 'file')}")
        done = {each.wanted: each for each in interrupts.run(_transferred(request, planned))}
        found = [done.get(each.wanted, each) for each in found]
    return FetchResult(request, found, failed, notes)


def _lists(plan: RunPlan, patterns: Sequence[str]) -> tuple[dict[str, _FileList], dict[str, str]]:
    """Ask all nodes of the run for the files that match; return the reasons of those that list none."""
    cluster = plan.cluster.only(host.name for host in plan.cluster.hosts if host.connection is not Connection.NONE)
    programs = {
        host.name: program(run_files.list_files, (host.node_root, plan.run, plan.job.workdir), list(patterns), MOST)
        for host in cluster.hosts
    }
    lists, unreachable = understood_all(
        ask(cluster, programs), cluster, lambda answer: typed_json.converted(answer, _FileList)
    )
    failed = dict.fromkeys(plan.cluster.names, "not in the inventory, so not connected to")
    failed |= {name: why.reason for name, why in unreachable.items()}
    failed |= {name: each.error for name, each in lists.items()}
    lists = {name: each for name, each in lists.items() if not each.error}
    return lists, {name: visible_line(why)[:SHOWN] for name, why in failed.items() if name not in lists}


def _compared(request: FetchRequest, wanted: Fetched) -> FileResult:
    try:
        here = is_here(request.directory, wanted)
    except OSError as error:
        return FileResult(wanted, "failed", error.strerror or str(error))
    if here:
        return FileResult(wanted, "present")
    return FileResult(wanted, "planned") if here is None else FileResult(wanted, "kept", "another file is here")


async def _transferred(request: FetchRequest, planned: Sequence[Fetched]) -> list[FileResult]:
    by_host: dict[str, list[Fetched]] = {}
    for each in planned:
        by_host.setdefault(each.host, []).append(each)
    room = asyncio.Semaphore(NODES_AT_ONCE)

    async def of_host(name: str) -> list[FileResult]:
        async with room:
            return await _of_host(request, name, by_host[name])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(of_host(name)) for name in by_host]
    return [each for task in tasks for each in task.result()]


async def _of_host(request: FetchRequest, name: str, files: Sequence[Fetched]) -> list[FileResult]:
    """Let one node send its files, one after the other."""
    plan, host = request.plan, request.plan.cluster[name]
    words = [(each.file.path, each.file.size, each.file.mtime_ns) for each in files]
    script = program(run_files.send_files, (host.node_root, plan.run, plan.job.workdir), words)
    argv = connector_of(host, plan.cluster.known_hosts).argv((host.agent_python, *FROM_STDIN))
    done: list[FileResult] = []
    try:
        async with running(argv, stdin=script) as child:
            for each in files:
                try:
                    await write_file(request.directory, each, contents(child.read, each.file.size))
                except NotSentError as error:
                    done.append(FileResult(each, "failed", error.message))
                except OSError as error:
                    raise NodeStoppedError(f"{each.place[-1]}: {error.strerror or error}") from None
                else:
                    done.append(FileResult(each, "fetched"))
    except PylaunchError as error:
        done += [FileResult(each, "failed", error.message) for each in files[len(done) :]]
    return done


async def contents(read: Read, left: int) -> AsyncIterator[bytes]:
    """Yield the next file of `left` bytes that a node sends. Raises NotSentError for a file, NodeStoppedError for all
    that follow."""
    while (word := await _next_line(read)) != "end":
        if word.startswith("error "):
            raise NotSentError(visible_line(word[len("error ") :])[:SHOWN])
        if not word.isdecimal() or not 0 < int(word) <= min(left, run_files.CHUNK):
            raise NodeStoppedError("it sends something else than the file")
        rest = int(word)
        left -= rest
        while rest:
            data = await _some(read, rest)
            rest -= len(data)
            yield data
    if left:
        raise NodeStoppedError("it sends less than the file")


async def _next_line(read: Read) -> str:
    line = b""
    while not line.endswith(b"\n"):
        if len(line) >= LONGEST_LINE:
            raise NodeStoppedError("it sends something else than the file")
        line += await _some(read, 1)
    return line[:-1].decode("utf-8", "replace")


async def _some(read: Read, most: int) -> bytes:
    try:
        async with asyncio.timeout(SILENCE_S):
            data = await read(most)
    except TimeoutError:
        raise NodeStoppedError(f"silent for {SILENCE_S:g} s") from None
    if not data:
        raise NodeStoppedError("the connection ended")
    return data
