"""Which run a command line means: one that is recorded here, or one that its nodes know."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pylaunch.cli import console
from pylaunch.cli.flags.invocation import current
from pylaunch.cli.views.listing import duration, standings, word
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import source_of
from pylaunch.launch.existing.attach import Standing
from pylaunch.launch.existing.discover import Discovery, discover
from pylaunch.model.argv import pylaunch, quoted
from pylaunch.model.hostset import fold
from pylaunch.model.plan import base_of
from pylaunch.model.run import RunRecord
from pylaunch.store import runs

SHOWN = 8
"""Runs that are listed for a person to choose from."""


@dataclass(frozen=True)
class Asked:
    """The hosts that were asked for runs, and those that did not answer, with why."""

    hosts: tuple[str, ...]
    found: Discovery


def find(text: str | None, inventory: Path | None) -> RunRecord:
    """The run that `text` begins; for None the only live one of the inventory that is given or found here.

    With `inventory` its hosts are asked for what is not here. Raises UsageError for none or several, and where None
    leaves a choice, ClusterNotReadyError when no host answers.
    """
    if text is None:
        return _only_live(inventory)
    if inventory is not None and not runs.meant(text, runs.ids()):
        known = {record.plan.run: record for record in _ask(inventory).found.records}
        for run in runs.meant(text, known):
            runs.adopt(known[run])
    try:
        return runs.read(runs.find(text))
    except runs.UnknownRunError as error:
        if inventory is not None:
            raise
        hint = f"started elsewhere? its nodes know it: -i cluster.ini; what is known here: {error.hint}"
        raise UsageError(error.message, hint=hint) from None


def adopt_all(inventory: Path, *, past: bool) -> Asked:
    """Begin a record here of every live run that the hosts of `inventory` know; of `past` ones too.

    Raises ClusterNotReadyError when no host answers.
    """
    asked = _ask(inventory)
    for record in asked.found.records:
        if past or record.plan.run in asked.found.live:
            runs.adopt(record)
    return asked


def _only_live(inventory: Path | None) -> RunRecord:
    """The live run of this inventory. What is another project's, or over, is never meant by a word left out."""
    on_nodes = adopt_all(inventory, past=False).found.live if inventory is not None else frozenset()
    source = source_of(inventory)
    sources = (str(source),) if source is not None else ()
    newest = _newest_attempts()
    may_live = [record for record in newest if _may_live(record)]
    here = [record for record in may_live if record.plan.sources == sources or record.plan.run in on_nodes]
    if len(here) > 1:
        here = [record for record, how in zip(here, standings(here), strict=True) if how.outcome is None]
    if len(here) == 1:
        return here[0]
    which = "several runs are live" if here else "no run is live"
    named = "the inventory " + quoted(sources) if sources else "this machine alone"
    raise _choice(f"{which} of {named}: name one", here or may_live or newest[:SHOWN])


def _newest_attempts() -> list[RunRecord]:
    """The last attempt of every recorded run, the newest first."""
    last: dict[str, RunRecord] = {}
    for record in runs.readable(console.say):
        last.setdefault(base_of(record.plan.run), record)
    return list(last.values())


def _may_live(record: RunRecord) -> bool:
    """Its end is not known, or a controller here may start it again."""
    run = record.plan.run
    return record.outcome is None or any(runs.controller(each) is not None for each in {run, base_of(run)})


def _choice(message: str, records: Sequence[RunRecord]) -> UsageError:
    """The error that asks for an id, with the runs to choose from."""
    verb = current().verb or "status"
    if not records:
        return UsageError(message, evidence=["none is recorded here"], hint="pylaunch ps -i INVENTORY asks the nodes")
    return UsageError(
        message,
        evidence=[_line(record) for record in records[:SHOWN]],
        hint=f"{pylaunch(verb, base_of(records[0].plan.run))}; all runs: pylaunch ps --all",
    )


def _line(record: RunRecord) -> str:
    """A run to choose: its id, how it stands as far as is recorded, its age, hosts, inventory and command."""
    status = "not known to have ended" if record.outcome is None else word(Standing((), record.outcome))
    hosts = fold(node.host.name for node in record.plan.nodes)
    inventory = quoted(record.plan.sources) if record.plan.sources else "no inventory"
    age = duration(max(0.0, time.time() - record.created_at))
    run, words = base_of(record.plan.run), quoted(record.plan.job.command)
    return f"{run}  {status}, started {age} ago on {hosts} ({inventory}): {words}"


def _ask(inventory: Path) -> Asked:
    cluster = load_cluster(inventory)
    found = discover(cluster)
    if len(found.silent) == len(cluster.hosts):
        raise ClusterNotReadyError(
            "none of the hosts can be asked for runs",
            evidence=[f"{host}: {reason}" for host, reason in found.silent.items()],
        )
    if found.silent:
        console.say(f"{fold(found.silent)} could not be asked for runs: {next(iter(found.silent.values()))}")
    for note in found.notes:
        console.say(note)
    return Asked(cluster.names, found)
