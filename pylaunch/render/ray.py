"""Ray: a cluster for one driver, with the addresses, devices and first port of the plan.

Ranks do not get RANK, WORLD_SIZE or MASTER_ADDR: every process of Ray would inherit those of its node.
"""

from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RunPlan
from pylaunch.render.environment import interpreter, interpreter_needs, node_layers, script_needs

NODE = ("-u", "-m", "pylaunch.runtime.ray_node")
SHORT_DIRECTORY = "@short-directory"


def render(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`.

    vLLM reads VLLM_HOST_IP on each node, and Ray does not pass it on. Without RAY_AUTH_MODE, a head whose user has a
    token of Ray asks for it, and the other nodes send none.
    """
    address, python = node.host.rank_address, interpreter(plan, node)
    place = (str(node.node_rank), str(len(plan.nodes)), plan.coordinator.host.rank_address, plan.port)
    devices = (f"--num-gpus={len(node.devices)}",) if node.devices else ()
    argv = (python, *NODE, *place, address, SHORT_DIRECTORY, *devices, "--", *plan.job.command)
    return NodeCommand(
        launcher=(),
        layers=node_layers(
            plan, node, {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "VLLM_HOST_IP": address}
        ),
        ranks=tuple(RankCommand(argv, {}) for _ in node.ranks),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
    )
