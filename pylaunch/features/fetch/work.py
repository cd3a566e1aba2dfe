"""Fetch: list, choose, and bring the files of several nodes side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.features.fetch.choice import Fetched, choose_files, refuse_patterns
from pylaunch.features.fetch.local_files import Presence, presence, write_file
from pylaunch.features.fetch.node_files import NodeStoppedError, NotSentError, list_on_nodes, stream
from pylaunch.model.hostset import fold
from pylaunch.model.plan import RunPlan
from pylaunch.model.text.size import shown_size
from pylaunch.terminal.views.live import counted
from pylaunch.transport.process import Together

NODES_AT_ONCE = 8


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
    say(f"fetching {shown_size(sum(each.file.size for each in planned))} in {counted(len(planned), 'file')}")
    done = {each.wanted: each for each in _transferred(request, planned)}
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


def _transferred(request: FetchRequest, planned: Sequence[Fetched]) -> list[FileResult]:
    """Fetch the files of several nodes side by side."""
    by_host: dict[str, list[Fetched]] = {}
    for each in planned:
        by_host.setdefault(each.host, []).append(each)
    # In this order: the pool waits for its threads, which end when their processes do.
    with ThreadPoolExecutor(min(NODES_AT_ONCE, len(by_host))) as pool, Together() as together:
        results = pool.map(lambda host: _of_host(request, host, by_host[host], together), by_host)
        return [each for of_host in results for each in of_host]


def _of_host(request: FetchRequest, host: str, files: Sequence[Fetched], together: Together) -> list[FileResult]:
    done: list[FileResult] = []
    try:
        with stream(request.plan, host, files, together) as node:
            for each in files:
                try:
                    write_file(request.directory, each, node.contents(each.file.size))
                except NotSentError as error:
                    done.append(FileResult(each, "failed", error.message))
                except OSError as error:
                    raise NodeStoppedError(f"{each.place[-1]}: {error.strerror or error}") from None
                else:
                    done.append(FileResult(each, "fetched"))
    except NodeStoppedError as error:
        done += [FileResult(each, "failed", error.message) for each in files[len(done) :]]
    return done
