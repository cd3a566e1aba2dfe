"""Plan a start from its flags, then run it, or print its plan (`start --dry-run`)."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pylaunch.base.dataclass import asdict, replace
from pylaunch.base.rank_environment import AGENT_VARIABLES, RUNTIME_PATH, ComposedVariable, Layer, compose
from pylaunch.errors import ExitCode
from pylaunch.features import judge_settings
from pylaunch.inventory.load import is_host_list, source_of
from pylaunch.inventory.settings import SETTINGS, read_settings
from pylaunch.model.hostset import fold_ranks
from pylaunch.model.job import TREE, Container
from pylaunch.model.plan import NODE_ENVIRONMENT, PORT_ENTRY, NodeCommand, NodePlan, RankCommand, RunPlan
from pylaunch.model.secret import MASK, masked
from pylaunch.model.text.argv import quoted
from pylaunch.runs.planned import PlannedRun, plan_start
from pylaunch.terminal import console, document
from pylaunch.terminal.document import current
from pylaunch.terminal.doors import InventorySource, NodesWanted, RunObserver, StartNodes, StartSource
from pylaunch.terminal.flags import program, sync
from pylaunch.terminal.flags.program import requested
from pylaunch.terminal.flags.start import OPTIONS, StartFlags
from pylaunch.terminal.listing import counted
from pylaunch.terminal.option import as_json_value


def plan_and_run(
    typed: StartFlags,
    source: StartSource | None,
    inventory: Path | None,
    limit: str | None,
    observers: tuple[RunObserver, ...],
) -> int:
    """Start the job of the flags on the nodes of `source`, and return the exit code."""
    as_json = current().as_json
    asked = requested(typed, os.environ)
    source = source or InventorySource()
    flags, job = asked.flags, asked.job
    with source.nodes(NodesWanted(inventory, limit, flags.nodes, flags.spares, flags.dry_run), job) as nodes:
        if source.is_inventory and not nodes.cluster.sources:
            console.say("no inventory, so this machine alone; others: -H gpu01,gpu02, or pylaunch init 'gpu[01-02]'")
        cluster = nodes.cluster
        planned = nodes.recorded(plan_start(cluster, job, judge_settings, console.say))
        program.report_against(planned.plan, asked.program)
        if flags.dry_run:
            where = inventory_line(inventory) if source.is_inventory else None
            show_plan(planned.plan, planned.commands, where, as_json=as_json, verbose=flags.verbose)
            return ExitCode.DONE
        wanted = asked.options()
        if wanted.turn is not None and source.is_inventory:
            wanted = replace(wanted, turn=wanted.turn.among(cluster, planned.plan))
    return _run(planned, wanted, (flags, nodes, observers))


def _run(
    planned: PlannedRun, wanted: "StartOptions", beside: tuple[StartFlags, StartNodes, tuple[RunObserver, ...]]
) -> int:
    """Start a planned run. Its modules are imported when there is a plan that is not only printed."""
    from pylaunch.cli.running import Presentation, run_planned  # noqa: PLC0415
    from pylaunch.runs.prepare.session import TakenError  # noqa: PLC0415

    flags, nodes, observers = beside
    shown = Presentation(flags.detach, current().as_json, flags.save_logs, observers, flags.request, nodes.end)
    try:
        return run_planned(planned, wanted, shown)
    except TakenError as error:
        if wanted.turn is None:
            hints = (error.hint, "to wait until they are free: the same command with --queue")
            error.hint = "\n      ".join(filter(None, hints))
        raise


if TYPE_CHECKING:
    from pylaunch.runs.start import StartOptions

Commands = Sequence[tuple[NodePlan, NodeCommand]]

ON_THE_NODE = {
    Layer.RECORDER: "TORCH_FR_BUFFER_SIZE, TORCH_FR_DUMP_TEMP_FILE, TORCH_NCCL_DUMP_ON_TIMEOUT",
    Layer.USER: "HOME, USER, LOGNAME, SHELL of the user on the node",
    Layer.ROUTE: "NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME: the interface to the other nodes",
    Layer.NODE: f"{NODE_ENVIRONMENT} of the node, where provision wrote it",
    Layer.AGENT: f"{', '.join(AGENT_VARIABLES)}; {RUNTIME_PATH} is extended by directories of the agent",
}
"""Layers that only a node knows, by what they set."""

OF_TORCHRUN = "variables that torchrun sets in the ranks that it starts"

MOST_VALUES = 4
"""Different values of one variable that are printed; `--json` has them by rank, with those that they override."""


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


def show_plan(
    plan: RunPlan, commands: Commands, inventory: str | None = None, *, as_json: bool, verbose: bool = True
) -> None:
    """Print `plan` with the command lines of its ranks and, if `verbose`, their environment by layer."""
    if as_json:
        document.show({"plan": plan_document(plan, commands)})
        return
    for line in plan_lines(plan, commands, verbose=verbose):
        console.data(line)
    if inventory is not None:
        console.data(f"\n{inventory}")


def plan_lines(plan: RunPlan, commands: Commands, *, verbose: bool = True) -> Iterator[str]:
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
    if not verbose:
        yield "\nenvironment of the ranks: the same command with --verbose"
        return
    yield "\nenvironment of the ranks by layer; a layer overrides those above it"
    yield from _environment_lines(plan, commands)


def _environment_lines(plan: RunPlan, commands: Commands) -> Iterator[str]:
    environments = [compose(_layers(plan, command, each)) for _, command in commands for each in command.ranks]
    names = sorted({name for each in environments for name in each})
    for layer in Layer:
        known = [(name, [each[name] for each in environments if name in each]) for name in names]
        found = [(name, [each for each in variables if each.layer is layer]) for name, variables in known]
        if layer in ON_THE_NODE:
            yield f"  {layer.value}: {ON_THE_NODE[layer]}"
        elif layer is Layer.LAUNCHER and any(command.launcher for _, command in commands):
            yield f"  {layer.value}: {OF_TORCHRUN}"
        elif any(variables for _, variables in found):
            yield f"  {layer.value}:"
        yield from (f"    {name}={_values_shown(variables)}" for name, variables in found if variables)


def _values_shown(variables: Sequence[ComposedVariable]) -> str:
    """Return the different values of a variable in the order of ranks; of many, the first and the last."""
    values = list(dict.fromkeys(shlex.quote(each.value) for each in variables))
    return "; ".join(values) if len(values) <= MOST_VALUES else f"{values[0]} … {values[-1]}"


def _layers(plan: RunPlan, command: NodeCommand, rank: RankCommand | None) -> Mapping[Layer, Mapping[str, str]]:
    """Return the layers that the controller knows, values of secrets masked; without `rank` the shared."""
    secrets = dict.fromkeys(plan.job.secrets, MASK)
    return {**command.layers, Layer.SECRETS: secrets, Layer.IDENTITY: {} if rank is None else rank.env}


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {fold_ranks(ranks)}"


def plan_document(plan: RunPlan, commands: Commands) -> dict[str, Any]:
    """Return the plan for `--json`."""
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
    shared = compose(_layers(plan, command, None))
    ranks = []
    for rank, each in zip(node.ranks, command.ranks, strict=True):
        composed = compose(_layers(plan, command, each))
        own = ((name, variable) for name, variable in composed.items() if variable.layer is Layer.IDENTITY)
        ranks.append(
            {"rank": rank.rank, "argv": masked(each.argv), "env": _env(composed), "variables": _variables(own)}
        )
    return {
        "host": node.host.name,
        "node_rank": node.node_rank,
        "devices": node.devices,
        "env": _env(shared),
        "variables": _variables(shared.items()),
        "launcher": masked(command.launcher) if command.launcher else command.launcher,
        "ranks": ranks,
    }


def _env(composed: Mapping[str, ComposedVariable]) -> dict[str, str]:
    return {name: variable.value for name, variable in composed.items()}


def _variables(composed: Iterable[tuple[str, ComposedVariable]]) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "value": variable.value,
            "layer": variable.layer.value,
            "overrides": [{"layer": layer.value, "value": value} for layer, value in variable.overrides],
        }
        for name, variable in composed
    ]


def _container(container: Container) -> dict[str, object]:
    return {"image": container.image, "mounts": [asdict(each) for each in container.mounts]}
