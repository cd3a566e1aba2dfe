"""Find runs: those recorded on this machine, and those that only their nodes know."""

from collections.abc import Callable, Sequence

from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.host_errors import error_lines
from pylaunch.model.hostset import fold
from pylaunch.model.notes import Notes, ignore
from pylaunch.model.plan import base_of
from pylaunch.model.run import RunRecord
from pylaunch.model.text.argv import quoted
from pylaunch.runs.existing import discover
from pylaunch.runs.existing.discover import Discovery
from pylaunch.runs.status import statuses
from pylaunch.store import runs
from pylaunch.store.job_parts import recorded_parts
from pylaunch.store.runs import UnknownRunError

CANDIDATES = 8
"""Runs that an error offers to choose from."""


class RunNotNamedError(UsageError):
    """No run was named, and not exactly one live run can be meant."""

    def __init__(self, message: str, candidates: Sequence[RunRecord]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(
            message,
            evidence=[
                f"{record.plan.run} on {fold(node.host.name for node in record.plan.nodes)}" for record in candidates
            ]
            or ["none is recorded here"],
            hint="name a run" if candidates else "ask the nodes: pylaunch ps -i INVENTORY",
        )


def discover_runs(cluster: Cluster) -> Discovery:
    """Ask every host of `cluster` for the runs it knows. Raises ClusterNotReadyError when no host answers."""
    found = discover.discover(cluster)
    if len(found.silent) == len(cluster.hosts):
        raise ClusterNotReadyError(
            "no host answered",
            evidence=error_lines(cluster.hosts, found.silent),
            hint="\n      ".join(found.hints) or "pylaunch check",
        )
    return found


def adopt_runs(found: Discovery, *, past: bool) -> None:
    """Record the live runs of `found` on this machine, and with `past` those that are over."""
    for record in found.records:
        if past or record.plan.run in found.live:
            runs.adopt(record)


def is_recorded(run: str) -> bool:
    """Report whether `run` (an id, or the beginning of one) names a run that is recorded on this machine."""
    return bool(runs.meant(run, runs.ids()))


def find_run(run: str, found: Discovery | None = None) -> RunRecord:
    """Return the record that `run` (an id, or the beginning of one) names.

    Runs of `found` that it names are recorded here first. Raises UnknownRunError for none, UsageError for several.
    """
    if found is not None:
        known = {record.plan.run: record for record in found.records}
        for each in runs.meant(run, known):
            runs.adopt(known[each])
    return runs.read(runs.find(run))


def find_job(text: str, role: str | None = None, found: Discovery | None = None) -> list[RunRecord]:
    """Return the last attempt of each run of the job that `text` (an id, or the beginning of one) names.

    Those that stop first are first; with `role` only those of this role. Runs of `found` are recorded here first.
    Raises UnknownRunError for no job, UsageError for several, and for a role that the job does not have.
    """
    if found is not None:
        for record in found.records:
            if record.plan.job.part is not None and record.plan.job.part.job.startswith(text):
                runs.adopt(record)
    parts = {run: part for run, part in recorded_parts().items() if part.job.startswith(text)}
    jobs = sorted({part.job for part in parts.values()})
    if not jobs:
        raise UnknownRunError(f"no job {text} is recorded here", hint="pylaunch ps --all")
    if len(jobs) > 1:
        raise UsageError(f"{text} begins {len(jobs)} jobs: {', '.join(jobs)}", hint="give more digits")
    chosen = {run: part for run, part in parts.items() if role in (None, part.role)}
    if not chosen:
        roles = ", ".join(sorted({part.role for part in parts.values()}))
        raise UsageError(f"--role {role}: job {jobs[0]} has no such role; it has: {roles}")
    ordered = sorted(chosen, key=lambda run: (chosen[run].stop_order, chosen[run].name))
    return [runs.read(runs.find(run)) for run in ordered]


def find_live_run(sources: Sequence[str], found: Discovery | None = None, *, on_note: Notes = ignore) -> RunRecord:
    """Return the only live run of the inventory `sources`, or of the hosts that `found` is from.

    Runs of other inventories and runs that are over are never meant. Raises RunNotNamedError.
    """
    if found is not None:
        adopt_runs(found, past=False)
    on_nodes = found.live if found is not None else frozenset()
    newest = _newest_attempts(on_note)
    may_live = [record for record in newest if _may_live(record)]
    here = [record for record in may_live if record.plan.sources == tuple(sources) or record.plan.run in on_nodes]
    if len(here) > 1:
        here = [record for record, how in zip(here, statuses(here, on_note), strict=True) if how.outcome is None]
    if len(here) == 1:
        return here[0]
    which = f"several runs {_of(sources)} are live" if here else f"no run {_of(sources)} is live"
    raise RunNotNamedError(f"{which}: name one", (here or may_live or newest)[:CANDIDATES])


def find_newest_run(
    sources: Sequence[str],
    found: Discovery | None = None,
    is_meant: Callable[[RunRecord], bool] = lambda record: True,
    *,
    on_note: Notes = ignore,
) -> RunRecord:
    """Return the last attempt of the newest run of the inventory `sources`, or of the hosts that `found` is from.

    Raises RunNotNamedError without one that `is_meant`.
    """
    if found is not None:
        adopt_runs(found, past=True)
    on_nodes = frozenset() if found is None else {record.plan.run for record in found.records}
    newest = [record for record in _newest_attempts(on_note) if is_meant(record)]
    for record in newest:
        if record.plan.sources == tuple(sources) or record.plan.run in on_nodes:
            return record
    raise RunNotNamedError(f"no run {_of(sources)} is recorded here: name one", newest[:CANDIDATES])


def _of(sources: Sequence[str]) -> str:
    return "of the inventory " + quoted(sources) if sources else "started without an inventory"


def _newest_attempts(on_note: Notes) -> list[RunRecord]:
    """Return the last attempt of every recorded run, the newest first."""
    last: dict[str, RunRecord] = {}
    for record in runs.readable(on_note):
        last.setdefault(base_of(record.plan.run), record)
    return list(last.values())


def _may_live(record: RunRecord) -> bool:
    """Report whether the end of the run is not recorded, or a controller here may start it again."""
    run = record.plan.run
    return record.outcome is None or any(runs.controller(each) is not None for each in {run, base_of(run)})
