"""torchrun with static rendezvous, one launcher per node: the plan has decided every rank."""

from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RunPlan, base_of
from pylaunch.render.environment import (
    interpreter,
    interpreter_needs,
    node_layers,
    rank_environment,
    script_needs,
    threads,
)

RANK_ENTRY = "@rank"
LAUNCHER_FILES = "@launcher-files"


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the torchrun command of `node`. It starts the agent's rank entry, which starts the script.

    Without --log-dir, torchrun leaves a directory in TMPDIR after every run. Rendezvous is static because c10d ignores
    node ranks and hangs without a message if another process listens on its port. Each attempt of the run is a
    torchrun of its own, and ranks get the id that all attempts share.
    """
    python = interpreter(plan, node)
    launcher = (
        python, "-m", "torch.distributed.run",
        f"--nnodes={len(plan.nodes)}",
        f"--node-rank={node.node_rank}",
        f"--nproc-per-node={len(node.ranks)}",
        f"--master-addr={plan.coordinator.host.rank_address}",
        f"--master-port={plan.port}",
        f"--rdzv-id={plan.run}",
        "--max-restarts=0",
        f"--log-dir={LAUNCHER_FILES}",
        "--no-python",
        RANK_ENTRY,
    )  # fmt: skip
    argv = (python, "-u", *plan.job.command)
    identity = {"TORCHELASTIC_RUN_ID": base_of(plan.run)}
    return NodeCommand(
        launcher=launcher,
        layers=node_layers(plan, node, threads(node)),
        ranks=tuple(RankCommand(argv, {**rank_environment(plan, node, rank), **identity}) for rank in node.ranks),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
        gloo="torch",
    )
