"""Which run a command line means: one that is recorded here, or one that its nodes know."""

from __future__ import annotations

from pathlib import Path

from pylaunch.cli import console
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.launch.discover import Discovery, discover
from pylaunch.model.hostset import fold
from pylaunch.model.run import RunRecord
from pylaunch.store import runs


def find(text: str | None, inventory: Path | None) -> RunRecord:
    """The run that `text` begins (the newest for None). With an inventory its hosts are asked for what is not here.

    Raises UsageError for none or several, ClusterNotReadyError when no host answers.
    """
    if inventory is not None and (text is None or not runs.meant(text, runs.ids())):
        known = {record.plan.run: record for record in _ask(inventory).records}
        for run in list(known)[-1:] if text is None else runs.meant(text, known):
            runs.adopt(known[run])
    try:
        return runs.read(runs.find(text))
    except runs.UnknownRunError as error:
        if inventory is not None or text is None:
            raise
        hint = f"started elsewhere? its nodes know it: -i cluster.ini; what is known here: {error.hint}"
        raise UsageError(error.message, hint=hint) from None


def adopt_all(inventory: Path, *, past: bool) -> None:
    """Begin a record here of every live run that the hosts of `inventory` know; of `past` ones too.

    Raises ClusterNotReadyError when no host answers.
    """
    found = _ask(inventory)
    for record in found.records:
        if past or record.plan.run in found.live:
            runs.adopt(record)


def _ask(inventory: Path) -> Discovery:
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
    return found
