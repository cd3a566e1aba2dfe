"""The nodes of a run in the words of Open MPI and DeepSpeed: `address slots=ranks`, a line each."""

from __future__ import annotations

from pylaunch.model.plan import RunPlan


def hostfile(plan: RunPlan) -> str:
    """In node order, with the addresses at which ranks reach each other."""
    return "".join(f"{node.host.rank_address} slots={len(node.ranks)}\n" for node in plan.nodes)
