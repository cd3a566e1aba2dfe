"""A node's part of a plan, as the message to its agent."""

from collections.abc import Sequence

from pylaunch.checks import suite
from pylaunch.checks.selection import select
from pylaunch.model.job import Container
from pylaunch.model.plan import NODE_ENVIRONMENT, NodeCommand, NodePlan, RunPlan
from pylaunch.model.secret import secret_values
from pylaunch.model.setting import machines
from pylaunch.protocol.node_task import ContainerTask, Need, NodeTask, RankTask
from pylaunch.render.hostfile import hostfile

LOG_LIMIT = 1 << 30
"""Bytes of each log file on its node before its middle is removed."""


def node_task(plan: RunPlan, node: NodePlan, command: NodeCommand, record: str) -> NodeTask:
    """Return the task of the agent on `node`. The agent keeps `record` for controllers that have none."""
    return NodeTask(
        run=plan.run,
        host=node.host.name,
        node_rank=node.node_rank,
        workdir=plan.job.workdir,
        ranks=[
            RankTask(rank.rank, rank.local_rank, list(words.argv), dict(words.env))
            for rank, words in zip(node.ranks, command.ranks, strict=True)
        ],
        env=dict(command.env),
        launcher=list(command.launcher),
        hold_port=plan.job.rendezvous_port if node is plan.coordinator else None,
        choose_port=node is plan.coordinator and plan.job.rendezvous_port is None,
        devices=list(node.devices),
        needs=[Need(need.path, need.hint) for need in command.needs],
        grace_s=plan.job.failure_grace.total_seconds(),
        stop_grace_s=plan.job.stop_grace.total_seconds(),
        world_size=plan.world_size,
        python=plan.job.python or node.host.rank_python,
        env_file=NODE_ENVIRONMENT,
        peers={each.host.name: each.host.rank_address for each in plan.nodes},
        node_timeout_s=plan.job.node_timeout.total_seconds(),
        ends_with_controller=plan.job.ends_with_controller,
        record=record,
        log_limit=LOG_LIMIT,
        machines=machines(each.host.rank_address for each in plan.nodes),
        gloo=command.gloo,
        hostfile=hostfile(plan),
        unread_program=list(plan.job.entry) if plan.job.is_unread else [],
        secret_arguments=list(secret_values(plan.job.command)),
        rank_thread=plan.job.rank_thread,
        gpu_checks=gpu_refusals(plan.job.skipped_checks),
        container=None if plan.job.container is None else _container_task(plan.job.container),
    )


def gpu_refusals(skip: Sequence[str]) -> list[str]:
    """Return the codes of the reasons for which GPUs refuse a run, without those of the checks `skip`."""
    return [code for check in select(suite.CHECKS, skip=skip) for code in check.refusals]


def _container_task(container: Container) -> ContainerTask:
    return ContainerTask(container.image, list(container.mounts))
