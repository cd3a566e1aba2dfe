"""JAX: environment in which `jax.distributed.initialize()` without arguments finds its rank and world size.

JAX reads them only from launchers that it knows. Open MPI's variables are the ones with the fewest other readers
(Slurm's change what W&B, Lightning and submitit do).
"""

from collections.abc import Mapping

from pylaunch.model.plan import NodeCommand, NodePlan, RankPlan, RunPlan
from pylaunch.render import script

ENTRY = ("-m", "pylaunch.runtime")
"""Entry point that keeps a failed process from waiting for the others in JAX's shutdown barrier."""


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. On CPUs, collectives use JAX's own gloo, which reads no interface."""
    address, port = plan.coordinator.host.rank_address, plan.port
    scheme, host = ("tcp6", f"[{address}]") if ":" in address else ("tcp", address)
    coordinator = {
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "OMPI_MCA_orte_hnp_uri": f"0.0;{scheme}://{host}:{port}",
    }

    def rank_env(rank: RankPlan) -> Mapping[str, str]:
        return {
            "OMPI_COMM_WORLD_SIZE": str(plan.world_size),
            "OMPI_COMM_WORLD_RANK": str(rank.rank),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank.local_rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(len(node.ranks)),
        }

    return script.render(plan, node, script.Dialect("" if node.devices else "jax", coordinator, rank_env, ENTRY))
