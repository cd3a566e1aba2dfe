"""The plan of a start, in lines and as JSON (`start --dry-run`)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pylaunch.base.dataclass import asdict
from pylaunch.base.rank_environment import Layer, compose
from pylaunch.inventory.load import SETTINGS, is_host_list, read_settings, source_of
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.job import TREE, Container
from pylaunch.model.plan import NODE_ENVIRONMENT, PORT_ENTRY, NodeCommand, NodePlan, RunPlan
from pylaunch.model.secret import MASK, masked
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import counted
from pylaunch.render import PlannedRun
from pylaunch.terminal import console
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.start import OPTIONS
from pylaunch.terminal.options import as_json_value

Commands = Sequence[tuple[NodePlan, NodeCommand]]


def inventory_line(named: Path | None) -> str:
    """Return the inventory that a command line uses, and what names it."""
    source = source_of(named)
    if source is None:
        return "inventory: none (this machine alone)"
    by_settings = read_settings(Path.cwd()).inventory is not None
    origin = (
        "-H" if is_host_list(source) else "-i" if named is not None else SETTINGS if by_settings else "this directory"
    )
    return f"inventory: {source} (from {origin})"


def show(planned: PlannedRun, inventory: str | None) -> None:
    """Print a plan with the command lines of its ranks."""
    for line in lines(planned.plan, planned.commands):
        console.data(line)
    if inventory is not None:
        console.data(f"\n{inventory}")


def lines(plan: RunPlan, commands: Commands) -> Iterator[str]:
    """Yield the plan as text."""
    size = f"{counted(plan.world_size, 'rank')} on {counted(len(plan.nodes), 'node')}"
    yield f"{size} with --framework {plan.job.framework.value}, in {plan.job.workdir}"
    if plan.job.sync is not None:
        yield f"{TREE} is shipped: {sync.described(plan.job.sync)}"
    if plan.job.container is not None:
        yield f"container: {plan.job.container.words}"
    if plan.job.rendezvous_port is None:
        yield f"{PORT_ENTRY}: chosen on {plan.coordinator.host.name}, the first free one from 29500 on"
    if plan.job.interface is None and any(node.host.interface is None for node in plan.nodes):
        yield "interface: chosen on the node, by its route to the others, where no variable names one"
    for node, command in commands:
        yield f"\n{node.host.name} (node {node.node_rank}, {node.host.address})"
        if command.launcher:
            yield f"  launcher: {quoted(masked(command.launcher))}"
        ranks = zip(node.ranks, command.ranks, strict=True)
        for argv, same in groupby(ranks, key=lambda each: each[1].argv):
            yield f"  {_ranks([rank.rank for rank, _ in same])}: {quoted(masked(argv))}"
    yield "\nenvironment of the ranks, by layer: the same command with --json"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {fold_ranks(ranks)}"


def as_json(planned: PlannedRun) -> dict[str, Any]:
    """Return the plan for `--json`."""
    plan, commands = planned.plan, planned.commands
    return {
        "world_size": plan.world_size,
        "framework": plan.job.framework.value,
        "options": {each.name: as_json_value(getattr(plan.job, each.field)) for each in OPTIONS if each.field},
        "workdir": plan.job.workdir,
        "sync": None if plan.job.sync is None else plan.job.sync.tree,
        "container": None if plan.job.container is None else _container(plan.job.container),
        "node_environment": NODE_ENVIRONMENT,
        "master": f"{plan.coordinator.host.rank_address}:{plan.port}",
        "layers": [layer.value for layer in Layer],
        "nodes": [_node_document(plan, node, command) for node, command in commands],
    }


def _node_document(plan: RunPlan, node: NodePlan, command: NodeCommand) -> dict[str, object]:
    secrets = dict.fromkeys(plan.job.secrets, MASK)
    return {
        "host": node.host.name,
        "node_rank": node.node_rank,
        "devices": node.devices,
        "env": _variables({**command.layers, Layer.SECRETS: secrets}),
        "launcher": masked(command.launcher) if command.launcher else command.launcher,
        "ranks": [
            {"rank": rank.rank, "argv": masked(each.argv), "env": _variables({Layer.IDENTITY: each.env})}
            for rank, each in zip(node.ranks, command.ranks, strict=True)
        ],
    }


def _variables(layers: Mapping[Layer, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    return {name: {"value": each.value, "layer": each.layer.value} for name, each in compose(layers).items()}


def _container(container: Container) -> dict[str, object]:
    return {"image": container.image, "mounts": [asdict(each) for each in container.mounts]}
