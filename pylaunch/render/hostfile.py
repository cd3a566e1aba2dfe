"""Hostfile of a run in the format of Open MPI and DeepSpeed: `address slots=ranks`, a line per node."""

from pylaunch.model.plan import RunPlan


def hostfile(plan: RunPlan) -> str:
    """Return the hostfile, in node order, with the addresses by which ranks reach each other."""
    return "".join(f"{node.host.rank_address} slots={len(node.ranks)}\n" for node in plan.nodes)
