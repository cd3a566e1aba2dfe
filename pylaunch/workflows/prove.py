"""Ask the nodes of runs that are over, and were not known to be clean, again; record their answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pylaunch.agent.shared.dataclass import dataclass, replace
from pylaunch.launch.existing import proof
from pylaunch.launch.existing.proof import NodeProof
from pylaunch.launch.existing.stop import proven
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import RunRecord
from pylaunch.store import runs
from pylaunch.workflows.notes import Notes, ignore


@dataclass(frozen=True)
class ProvenRun:
    """A run that is over, with the answers of the nodes that were asked again."""

    run: str
    outcome: Outcome
    proofs: Mapping[str, NodeProof]


def is_in_doubt(outcome: Outcome) -> bool:
    """Report whether something of a run that is over may be left."""
    return bool(outcome.unproven or outcome.leftovers)


def prove_again(record: RunRecord, outcome: Outcome, on_note: Notes = ignore) -> ProvenRun:
    """Ask the nodes that have not proven that they are clean. Ends nothing; records their answers."""
    proofs = proof.look(record, {*outcome.unproven, *outcome.leftovers})
    shown = proven(replace(outcome, by_hand=False), proofs)
    after = replace(outcome, leftovers=shown.leftovers, unproven=shown.unproven)
    if after != outcome and runs.controller(record.plan.run) is None:
        runs.Recorder(record.plan.run, on_note).finish(after)
    return ProvenRun(record.plan.run, after, proofs)


def prove_runs(hosts: Collection[str], on_note: Notes = ignore) -> list[ProvenRun]:
    """Ask again for every recorded run that is over and that some of `hosts` have not been proven clean of."""
    return [
        prove_again(record, record.outcome, on_note)
        for record in runs.readable(ignore)
        if record.outcome is not None and {*record.outcome.unproven, *record.outcome.leftovers} & {*hosts}
    ]
