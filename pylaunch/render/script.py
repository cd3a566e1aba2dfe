"""Python script whose ranks the agent starts: without a launcher on the node, the framework is imported only once."""

from collections.abc import Callable, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RankPlan, RunPlan
from pylaunch.model.text.argv import Argv
from pylaunch.render.environment import (
    interpreter,
    interpreter_needs,
    node_layers,
    rank_environment,
    script_needs,
    threads,
)


@dataclass(frozen=True)
class Dialect:
    """Additions of a framework to the commands and variables that all frameworks have."""

    gloo: str
    """See `NodeCommand.gloo`."""

    env: Mapping[str, str]
    """Variables of the layer FRAMEWORK, the same for all ranks of a node."""

    rank_env: Callable[[RankPlan], Mapping[str, str]]
    """Variables of the layer IDENTITY beside those that all frameworks have."""

    entry: Argv = ()
    """Arguments between the interpreter and the script."""

    arguments: Callable[[RankPlan], Argv] = lambda rank: ()
    """Arguments between the script and its own arguments."""


def render(plan: RunPlan, node: NodePlan, dialect: Dialect) -> NodeCommand:
    """Return the commands of `node`, whose agent starts each rank."""
    python = interpreter(plan, node)
    entry = plan.job.entry
    arguments = plan.job.command[len(entry) :]

    def command(rank: RankPlan) -> RankCommand:
        argv = (python, "-u", *dialect.entry, *entry, *dialect.arguments(rank), *arguments)
        return RankCommand(argv, {**rank_environment(plan, node, rank), **dialect.rank_env(rank)})

    return NodeCommand(
        launcher=(),
        layers=node_layers(plan, node, {**threads(node), **dialect.env}),
        ranks=tuple(map(command, node.ranks)),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
        gloo=dialect.gloo,
    )
