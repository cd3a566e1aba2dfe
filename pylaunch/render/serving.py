"""vLLM and SGLang: one server over the nodes of a run. Each node has one process of it, placed by the plan.

The ranks do not get RANK, WORLD_SIZE or MASTER_ADDR: both servers number processes of their own.
"""

from collections.abc import Mapping

from pylaunch.errors import UsageError
from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RunPlan
from pylaunch.model.text.argv import Argv
from pylaunch.render.environment import interpreter, interpreter_needs, node_layers, script_needs


def vllm(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`; the first one has the API. Raises UsageError if the user placed nodes, too."""
    place = {
        "--nnodes": str(len(plan.nodes)),
        "--node-rank": str(node.node_rank),
        "--master-addr": plan.coordinator.host.rank_address,
        "--master-port": plan.port,
    }
    _refuse(plan, {*place, "-n", "-r", "--headless"})
    headless = ("--headless",) if node.node_rank else ()
    return _command(plan, node, (*_words(place), *headless), {"VLLM_HOST_IP": node.host.rank_address})


def sglang(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`; the first one has the API. Raises UsageError if the user placed nodes, too."""
    address = plan.coordinator.host.rank_address
    place = {
        "--nnodes": str(len(plan.nodes)),
        "--node-rank": str(node.node_rank),
        "--dist-init-addr": f"[{address}]:{plan.port}" if ":" in address else f"{address}:{plan.port}",
    }
    _refuse(plan, {*place, "--nccl-init-addr"})
    return _command(plan, node, _words(place), {"SGLANG_HOST_IP": node.host.rank_address})


def _refuse(plan: RunPlan, options: set[str]) -> None:
    typed = {word.partition("=")[0].replace("_", "-"): word for word in plan.job.command}
    for option in sorted(options & typed.keys()):
        raise UsageError(
            f"{typed[option]}: with --framework {plan.job.framework.value}, each node gets it from the plan",
            hint="omit it; --nodes N is the number of nodes, and --port the first port",
        )


def _words(place: Mapping[str, str]) -> Argv:
    return tuple(f"{option}={value}" for option, value in place.items())


def _command(plan: RunPlan, node: NodePlan, place: Argv, env: Mapping[str, str]) -> NodeCommand:
    argv = (interpreter(plan, node), "-u", *plan.job.command, *place)
    return NodeCommand(
        launcher=(),
        layers=node_layers(plan, node, env),
        ranks=tuple(RankCommand(argv, {}) for _ in node.ranks),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
    )
