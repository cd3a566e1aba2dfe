"""What the nodes of an attempt receive: the agent, and their tasks.

The agent is one file that any Python ≥ 3.8 runs, the same bytes for the same source.

Hosts without it get it through Ansible, one task per host; nodes of a Slurm job from the step that starts its daemon,
so that one without it has no daemon.
"""

import base64
import functools
import hashlib
import io
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass, field
from pylaunch.checks import suite
from pylaunch.checks.suite import select
from pylaunch.errors import ProvisionError
from pylaunch.model.job import Container
from pylaunch.model.plan import NODE_ENVIRONMENT, NodeCommand, NodePlan, RunPlan
from pylaunch.model.secret import Secrets, secret_values
from pylaunch.model.setting import machines
from pylaunch.protocol.node_task import ContainerTask, Need, NodeTask, RankTask
from pylaunch.render import hostfile
from pylaunch.runs.connect.agent_link import STARTS_S
from pylaunch.runs.sync.tree import Tree
from pylaunch.store.content import playbook
from pylaunch.transport.runner import PlaybookRun, run_playbook

PACKAGE = f"""\
__version__ = "{__version__}"
import os, sys
__path__ += [place for place in (os.path.join(entry, "pylaunch") for entry in sys.path) if os.path.isdir(place)]
""".encode()
"""The package in the archive. It is on the path of ranks, where a whole pylaunch that is installed stays importable."""

NOT_INSTALLED = ("pylaunch/agent/probe", "pylaunch/agent/piped", "pylaunch/protocol/readings")
"""Directories of programs that the controller pipes to hosts, and of the types of their answers."""

LEVEL = 6
"""Of compression: every start makes the archive, in 14 ms. The lowest level takes 10 ms, for a tenth more."""

EPOCH = (1980, 1, 1, 0, 0, 0)

Install = Callable[[Sequence[str], threading.Event], Mapping[str, str]]
"""Install the agent on hosts, unless the event is set; return the reasons of the hosts on which that failed."""


@dataclass(frozen=True)
class AgentArchive:
    """The bytes of the zipapp, and the name they have on nodes."""

    data: bytes
    version: str
    """The first 16 hex digits of the SHA-256 of `data`."""


@functools.cache
def build() -> AgentArchive:
    """Return the agent of this pylaunch with pylaunch.runtime, for the ranks that it starts; built once."""
    files = {"pylaunch/__init__.py": PACKAGE}
    package = resources.files("pylaunch")  # Not its packages, which that would import.
    for name in ("agent", "base", "protocol", "runtime"):
        files |= dict(_modules(package / name, f"pylaunch/{name}"))
    files["__main__.py"] = files.pop("pylaunch/agent/__main__.py")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, LEVEL)
    return AgentArchive(buffer.getvalue(), hashlib.sha256(buffer.getvalue()).hexdigest()[:16])


def _modules(directory: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in directory.iterdir():
        inside = f"{name}/{item.name}"
        if item.name.endswith(".py"):
            yield inside, item.read_bytes()
        elif item.is_dir() and inside not in NOT_INSTALLED:
            yield from _modules(item, inside)


def installer(plan: RunPlan, archive: AgentArchive) -> Install:
    """Return the function that installs `archive` on hosts of `plan`."""

    def install(hosts: Sequence[str], unwanted: threading.Event) -> Mapping[str, str]:
        jobs = {name: job for name in hosts if (job := plan.cluster[name].slurm_job) is not None}
        if jobs:
            return {
                name: f"the agent of Slurm job {job} did not start within {STARTS_S} s" for name, job in jobs.items()
            }
        roots = {name: plan.cluster[name].node_root for name in hosts}
        run = PlaybookRun(
            playbook("prepare"),
            plan.cluster.only(hosts),
            extra_vars={
                "pylaunch_agent_archive": base64.b64encode(archive.data).decode(),
                "pylaunch_agent_version": archive.version,
                "pylaunch_agent_roots": roots,
                "pylaunch_agent_pythons": {name: plan.cluster[name].agent_python for name in hosts},
            },
        )
        try:
            result = run_playbook(run, unwanted=unwanted)
        except ProvisionError as error:
            reason = "; ".join((error.message, *error.evidence))
            return dict.fromkeys(hosts, f"the agent could not be installed: {reason}")
        return {
            each.host: f"the agent could not be installed in {roots[each.host]}, by way of /tmp: {each.message}"
            for each in result.failures
        }

    return install


@dataclass(frozen=True)
class Launch:
    """One attempt of a run, and the values that its nodes receive."""

    plan: RunPlan
    commands: tuple[tuple[NodePlan, NodeCommand], ...]
    record: str
    """The nodes keep it for controllers that have no record of the run; "" keeps none."""

    secrets: Secrets = field(default_factory=Secrets)
    """Values of the variables that the job names as secrets. They are in no record."""

    tree: Tree | None = None
    """The code, for a job that says `sync`."""


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
