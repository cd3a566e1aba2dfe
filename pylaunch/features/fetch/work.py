"""Fetch: list, choose, and bring the files of several nodes side by side."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.fetch.choice import Fetched, choose_files, refuse_patterns
from pylaunch.features.fetch.local_files import PartialFile, Presence, arrived, partial, presence
from pylaunch.features.fetch.node_files import NodeStoppedError, NodeStream, NotSentError, list_on_nodes, stream
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.text.size import shown_size
from pylaunch.transport.process import Together

NODES_AT_ONCE = 8
FILES_AT_ONCE = 500
"""Files that one program on a node sends."""

FIRST_S = 2.0
EACH_S = 10.0
"""Times of the lines of progress."""


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
    replaces: bool = False
    """Replace files here that differ."""

    is_dry: bool = False


@dataclass(frozen=True)
class FetchResult:
    """Results for all files."""

    request: FetchRequest
    files: Sequence[FileResult]
    failed: dict[str, str]
    """Reasons of nodes that did not answer."""

    notes: Sequence[str] = field(default_factory=tuple)

    def of(self, *statuses: str) -> list[FileResult]:
        """Return the files with one of these statuses."""
        return [each for each in self.files if each.status in statuses]


def fetch(request: FetchRequest, say: Callable[[str], None]) -> FetchResult:
    """Fetch the files; nothing here is replaced without `replaces`.

    Raises UsageError for a pattern, and where nothing matches; ClusterNotReadyError when no node answers.
    """
    refuse_patterns(request.patterns)
    lists = list_on_nodes(request.plan, request.patterns)
    if not lists.files:
        raise ClusterNotReadyError(
            f"no node of run {request.plan.run} lists its files",
            evidence=[f"{host}: {why}" for host, why in lists.failed.items()],
        )
    chosen, notes = choose_files(lists.files)
    if lists.cut:
        notes.append(f"{fold(lists.cut)}: more files match than are listed; a narrower pattern finds the others")
    if not chosen:
        raise UsageError(
            f"no file matches {' '.join(request.patterns)} in {request.plan.job.workdir} on {fold(lists.files)}",
            evidence=[*notes, *(f"{host}: {why}" for host, why in lists.failed.items())],
            hint="'**' lists all files, --dry-run fetches none of them",
        )
    found = [_compared(request, each) for each in chosen]
    planned = [each.wanted for each in found if each.status == "planned"]
    if request.is_dry or not planned:
        return FetchResult(request, found, dict(lists.failed), notes)
    done = _Transfer(request, planned, say).run()
    return FetchResult(request, [done.get(each.wanted, each) for each in found], dict(lists.failed), notes)


def _compared(request: FetchRequest, wanted: Fetched) -> FileResult:
    try:
        here = presence(request.directory, wanted)
    except OSError as error:
        return FileResult(wanted, "failed", error.strerror or str(error))
    if here is Presence.SAME:
        return FileResult(wanted, "present")
    if here is Presence.DIFFERENT and not request.replaces:
        return FileResult(wanted, "kept", "another file is here")
    return FileResult(wanted, "planned")


class _Transfer:
    """The transfer of all files, with progress."""

    def __init__(self, request: FetchRequest, planned: Sequence[Fetched], say: Callable[[str], None]) -> None:
        self._request, self._planned, self._say = request, planned, say
        self._lock = threading.Lock()
        self._results: dict[Fetched, FileResult] = {}
        self._bytes = 0
        self._next_line_at = time.monotonic() + FIRST_S

    def run(self) -> dict[Fetched, FileResult]:
        """Return the result of each file."""
        by_host: dict[str, list[Fetched]] = {}
        for each in self._planned:
            by_host.setdefault(each.host, []).append(each)
        # In this order: the pool waits for its threads, which end when their processes do.
        with ThreadPoolExecutor(min(NODES_AT_ONCE, len(by_host))) as pool, Together() as together:
            futures = [pool.submit(self._of_host, host, files, together) for host, files in by_host.items()]
            for future in as_completed(futures):
                future.result()
        return self._results

    def _of_host(self, host: str, files: Sequence[Fetched], together: Together) -> None:
        for begin in range(0, len(files), FILES_AT_ONCE):
            batch = files[begin : begin + FILES_AT_ONCE]
            offsets = self._offsets(batch)
            try:
                stream(self._request.plan, host, offsets, together, self._takes(offsets))
            except NodeStoppedError as error:
                for each in files[begin:]:
                    if each not in self._results:
                        self._add(FileResult(each, "failed", error.message))
                return

    def _offsets(self, files: Sequence[Fetched]) -> list[tuple[Fetched, int]]:
        found = []
        for each in files:
            try:
                found.append((each, arrived(self._request.directory, each)))
            except OSError as error:
                self._add(FileResult(each, "failed", error.strerror or str(error)))
        return found

    def _takes(self, wanted: Sequence[tuple[Fetched, int]]) -> Callable[[NodeStream], None]:
        def take(node: NodeStream) -> None:
            for each, offset in wanted:
                try:
                    with partial(self._request.directory, each) as file:
                        self._add(self._taken(node.contents(each.file.size - offset), file, each))
                except OSError as error:
                    raise NodeStoppedError(f"{each.place[-1]}: {error.strerror or error}") from None

        return take

    def _taken(self, contents: Iterator[bytes], file: PartialFile, wanted: Fetched) -> FileResult:
        try:
            for data in contents:
                file.write(data)
                self._count(len(data))
        except NotSentError as error:
            file.discard()
            return FileResult(wanted, "failed", error.message)
        try:
            file.complete()
        except OSError as error:
            return FileResult(wanted, "failed", f"{wanted.place[-1]}: {error.strerror or error}")
        return FileResult(wanted, "fetched")

    def _count(self, size: int) -> None:
        with self._lock:
            self._bytes += size
            if time.monotonic() >= self._next_line_at:
                self._next_line_at = time.monotonic() + EACH_S
                whole = sum(each.file.size for each in self._planned)
                ended = f"{len(self._results)} of {len(self._planned)} files"
                self._say(f"fetched {shown_size(self._bytes)} of {shown_size(whole)}, {ended}")

    def _add(self, result: FileResult) -> None:
        with self._lock:
            self._results[result.wanted] = result
