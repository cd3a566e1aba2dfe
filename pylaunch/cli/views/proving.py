"""Runs that are over and were not known to be clean: their nodes are asked again, and what they show is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pylaunch.cli import console
from pylaunch.launch.existing import proof
from pylaunch.launch.existing.attach import proven
from pylaunch.model.hostset import alike
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import RunRecord
from pylaunch.store import runs


def is_in_doubt(record: RunRecord) -> bool:
    """The run is over, and something of it may be left."""
    return record.outcome is not None and bool(record.outcome.unproven or record.outcome.leftovers)


def prove_again(record: RunRecord, outcome: Outcome) -> Outcome:
    """`outcome` with what its nodes show now. Ends nothing; keeps what is learnt, and prints it."""
    proofs = proof.look(record, {*outcome.unproven, *outcome.leftovers})
    shown = proven(replace(outcome, by_hand=False), proofs)
    after = replace(outcome, leftovers=shown.leftovers, unproven=shown.unproven)
    if after != outcome and runs.controller(record.plan.run) is None:
        runs.Recorder(record.plan.run, console.say).finish(after)
    show(record, proofs)
    return after


def show(record: RunRecord, proofs: Mapping[str, proof.NodeProof]) -> None:
    """What the nodes answered."""
    for hosts, words in alike({host: (each.words,) for host, each in proofs.items()}):
        console.say(f"run {record.plan.run}: {hosts}: {words}")
