"""Lines for nodes that were asked whether anything of a run is left."""

from collections.abc import Mapping

from pylaunch.model.hostset import alike
from pylaunch.runs.existing.proof import NodeProof
from pylaunch.terminal import console


def show(run: str, proofs: Mapping[str, NodeProof]) -> None:
    """Print the answers of the nodes; nodes with the same answer share one line."""
    for hosts, words in alike({host: (each.words,) for host, each in proofs.items()}):
        console.say(f"run {run}: {hosts}: {words}")
