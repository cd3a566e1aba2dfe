"""Find the run that a command line names: one that is recorded here, or one that its nodes know."""

from __future__ import annotations

import time
from pathlib import Path

from pylaunch.errors import UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import source_of
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.plan import base_of
from pylaunch.model.run import RunRecord
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.runs.all_runs import (
    RunNotNamedError,
    discover_runs,
    find_live_run,
    find_newest_run,
    find_run,
    is_recorded,
)
from pylaunch.runs.existing.discover import Discovery
from pylaunch.runs.prove import is_in_doubt
from pylaunch.store.runs import UnknownRunError
from pylaunch.terminal import console
from pylaunch.terminal.invocation import current
from pylaunch.terminal.listing import duration, job_words


def find(run: str | None, inventory: Path | None) -> RunRecord:
    """Return the run that `run` begins; for None the only live one of the inventory that is given or found here.

    With `inventory` its hosts list their runs when the run is not recorded here. Raises UsageError for none or several,
    and where None leaves a choice, ClusterNotReadyError when no host answers.
    """
    if run is None:
        return _only_live(inventory)
    try:
        if inventory is not None and not is_recorded(run):
            return find_run(run, discovered(load_cluster(inventory)))
        return find_run(run)
    except UnknownRunError as error:
        if inventory is not None:
            raise
        hint = f"started elsewhere? its nodes know it: -i cluster.ini; what is known here: {error.hint}"
        raise UsageError(error.message, hint=hint) from None


def find_newest(run: str | None, inventory: Path | None) -> RunRecord:
    """Return the run that `run` begins; for None the newest recorded one of the inventory that is given or found here.

    Raises as `find` does.
    """
    if run is not None:
        return find(run, inventory)
    source = source_of(inventory)
    try:
        return find_newest_run((str(source),) if source is not None else (), on_note=console.say)
    except RunNotNamedError as error:
        raise _to_choose(error) from None


def discovered(cluster: Cluster) -> Discovery:
    """Ask the hosts of `cluster` for runs, and print which hosts did not answer. Raises as `discover_runs` does."""
    found = discover_runs(cluster)
    if found.silent:
        console.say(f"{fold(found.silent)} did not answer: {next(iter(found.silent.values()))}")
    for note in found.notes:
        console.say(note)
    return found


def _only_live(inventory: Path | None) -> RunRecord:
    found = discovered(load_cluster(inventory)) if inventory is not None else None
    source = source_of(inventory)
    try:
        return find_live_run((str(source),) if source is not None else (), found, on_note=console.say)
    except RunNotNamedError as error:
        raise _to_choose(error) from None


def _to_choose(error: RunNotNamedError) -> UsageError:
    """Return `error` with its candidates as lines."""
    if not error.candidates:
        return error
    verb, candidates = current().verb or "status", error.candidates
    if verb == "stop":
        candidates = tuple(each for each in candidates if each.outcome is None or is_in_doubt(each.outcome))
    all_runs = "all runs: pylaunch ps --all"
    return UsageError(
        error.message,
        evidence=[_line(record) for record in error.candidates],
        hint=f"{pylaunch(verb, base_of(candidates[0].plan.run))}; {all_runs}" if candidates else all_runs,
    )


def _line(record: RunRecord) -> str:
    """Describe a run to choose: id, recorded state, age, hosts, inventory and command."""
    status = "not known to have ended" if record.outcome is None else record.outcome.status.value
    hosts = fold(node.host.name for node in record.plan.nodes)
    inventory = quoted(record.plan.sources) if record.plan.sources else "no inventory"
    age = duration(max(0.0, time.time() - record.created_at))
    run, words = base_of(record.plan.run), job_words(record.plan.job.command)
    return f"{run}  {status}, started {age} ago on {hosts} ({inventory}): {words}"
