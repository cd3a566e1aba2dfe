"""Select the output that `logs` shows: ranks and nodes by set, lines by text."""

import re

from pylaunch.errors import UsageError
from pylaunch.model.hostset import expand, fold
from pylaunch.model.plan import NodePlan, RunPlan
from pylaunch.runs.connect.bounds import LAUNCHER_STREAMS
from pylaunch.runs.follow.run_follower import rank_streams


def parse_ranks(text: str, plan: RunPlan) -> tuple[int, ...]:
    """Parse ranks such as "0-3,7". Raises UsageError for other text, and for ranks that the run does not have."""
    found: set[int] = set()
    for piece in text.split(","):
        bounds = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", piece)
        if bounds is None or int(bounds[2] or bounds[1]) < int(bounds[1]):
            raise UsageError(f"--rank {text}: expected ranks such as 0-3,7")
        last = int(bounds[2] or bounds[1])
        if last >= plan.world_size:
            raise UsageError(f"--rank {text}: run {plan.run} has ranks 0 … {plan.world_size - 1}")
        found |= set(range(int(bounds[1]), last + 1))
    return tuple(sorted(found))


def nodes_of(text: str, plan: RunPlan) -> tuple[NodePlan, ...]:
    """Parse nodes such as "n1,gpu[01-03]". Raises UsageError for hosts that are not in the run."""
    try:
        wanted = set(expand(text))
    except ValueError as error:
        raise UsageError(f"--node {text}: {error}") from None
    strange = wanted - {node.host.name for node in plan.nodes}
    if strange:
        hosts = fold(node.host.name for node in plan.nodes)
        raise UsageError(f"--node {text}: run {plan.run} has no node {fold(strange)}; it runs on {hosts}")
    return tuple(node for node in plan.nodes if node.host.name in wanted)


def chosen(
    plan: RunPlan, ranks: str | None, nodes: str | None, *, launcher: bool
) -> tuple[tuple[NodePlan, ...], list[str]]:
    """Return the nodes to ask and the streams to show. Raises UsageError for an empty selection."""
    asked = plan.nodes if nodes is None else nodes_of(nodes, plan)
    if launcher:
        if ranks is not None:
            raise UsageError("--launcher cannot be combined with --rank", hint="use only one of them")
        return asked, [*LAUNCHER_STREAMS]
    wanted = range(plan.world_size) if ranks is None else parse_ranks(ranks, plan)
    there = tuple(node for node in asked if any(rank.rank in wanted for rank in node.ranks))
    if not there:
        raise UsageError(f"no rank of {ranks} runs on {nodes}", hint=f"pylaunch status {plan.run}")
    return there, [stream for rank in wanted for stream in rank_streams(plan, rank)]
