"""Plan of a run: placement of every rank, decided from the job and the inventory before any host is contacted."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.rank_environment import Layer, composed_values
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.secret import masked
from pylaunch.model.text.argv import Argv

NODE_ENVIRONMENT = "/etc/pylaunch/environment.json"
"""File on a node with the variables that the role nccl_env determined there."""


PORT_ENTRY = "@port@"
"""Placeholder for the rendezvous port in rendered arguments and values; the first node chooses it when it prepares."""


@dataclass(frozen=True)
class RankPlan:
    """One training process."""

    rank: int
    local_rank: int


@dataclass(frozen=True)
class NodePlan:
    """Host with its node rank, ranks and devices in a run."""

    host: Host
    node_rank: int
    ranks: tuple[RankPlan, ...]
    devices: tuple[int, ...]
    """Accelerators that the run uses on this node."""


@dataclass(frozen=True)
class RunPlan:
    """Run as decided."""

    run: str
    job: JobSpec
    nodes: tuple[NodePlan, ...]
    known_hosts: str | None
    sources: tuple[str, ...]
    """Inventory files, for Ansible; empty for this machine alone."""

    spares: tuple[Host, ...] = ()
    """Hosts that can replace one of the nodes."""

    restart: int = 0
    """Number of attempts before this one."""

    submitted_job: str | None = None
    """Id of the Slurm job that pylaunch submitted for this run, and that ends with it."""

    @property
    def slurm_jobs(self) -> tuple[str, ...]:
        """Ids of the Slurm jobs that its nodes belong to; none over SSH."""
        jobs = (node.host.slurm_job for node in self.nodes)
        return tuple(dict.fromkeys(job for job in jobs if job is not None))

    @property
    def attempt(self) -> str:
        """Id of this attempt alone, also after further attempts."""
        return f"{self.run}.0" if self.restart == 0 and self.job.may_have_attempts else self.run

    @property
    def attempt_words(self) -> str:
        """Number of this attempt for a person: "restart 1 of 3"."""
        return f"restart {self.restart} of {self.job.max_restarts}"

    @property
    def env_name(self) -> str | None:
        """Name of the Python environment of this project that its ranks need; None for any other program."""
        job = self.job
        if job.python is not None or job.container is not None or job.framework is Framework.COMMAND:
            return None
        return next((node.host.env_name for node in self.nodes if node.host.python is None), None)

    @cached_property
    def world_size(self) -> int:
        """Ranks of all nodes together."""
        return sum(len(node.ranks) for node in self.nodes)

    @property
    def coordinator(self) -> NodePlan:
        """Node whose address is MASTER_ADDR."""
        return self.nodes[0]

    @property
    def port(self) -> str:
        """Rendezvous port for renderers: a number, or PORT_ENTRY if the first node chooses it."""
        return PORT_ENTRY if self.job.rendezvous_port is None else str(self.job.rendezvous_port)

    @property
    def cluster(self) -> Cluster:
        """Hosts of the run, with what is needed to connect to them."""
        return Cluster(tuple(node.host for node in self.nodes), sources=self.sources, known_hosts=self.known_hosts)

    def in_order(self, hosts: Iterable[str]) -> list[str]:
        """Return `hosts` in the order of their ranks, then spares, then any others."""
        places = {host.name: place for place, host in enumerate((*self.cluster.hosts, *self.spares))}
        return sorted(hosts, key=lambda host: places.get(host, len(places)))

    def node_of_rank(self, rank: int) -> NodePlan:
        """Return the node of `rank`. Raises KeyError for a rank that the run does not have."""
        for node in self.nodes:
            if any(each.rank == rank for each in node.ranks):
                return node
        raise KeyError(rank)


@dataclass(frozen=True)
class RankCommand:
    """Command line of one rank and the variables of this rank alone."""

    argv: Argv
    env: Mapping[str, str]
    """Variables of the layer IDENTITY."""


@dataclass(frozen=True)
class RequiredPath:
    """Path that must exist on a node, with a hint. A relative path starts at the working directory."""

    path: str
    hint: str


@dataclass(frozen=True)
class NodeCommand:
    """Commands and environment of one node for its framework."""

    launcher: Argv
    """Command line of the launcher of the node; empty if the agent starts the ranks. "@rank" in it is replaced by the
    agent's rank entry."""

    layers: Mapping[Layer, Mapping[str, str]]
    """Variables of all processes of the run on the node, except those that only the node knows and secrets."""

    ranks: tuple[RankCommand, ...]
    needs: tuple[RequiredPath, ...]
    gloo: str = ""
    """gloo of the ranks: "torch", "jax", or "" for neither. It listens at the address of the host name."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables of `layers`, composed."""
        return composed_values(self.layers)


def plan_run(cluster: Cluster, job: JobSpec, run: str) -> RunPlan:
    """Assign every rank its node, number and device. Pure.

    Raises UsageError when the cluster has too few hosts, or a host too few devices for what is asked.
    """
    there = len(cluster.hosts)
    if job.nodes is not None and job.nodes > there:
        raise UsageError(
            f"--nodes {job.nodes}: the inventory has {there} host{'s' * (there > 1)} ({fold(cluster.names)})",
            hint="--nodes 1" + f" … --nodes {there}" * (there > 1),
        )
    wanted = _node_count(cluster, job)
    hosts, spares = cluster.hosts[:wanted], cluster.hosts[wanted : wanted + job.spares]
    _check_devices((*hosts, *spares), job)
    return RunPlan(run, job, _placed(hosts, job), cluster.known_hosts, cluster.sources, spares)


def base_of(run: str) -> str:
    """Return the run that `run` is an attempt of: attempts after the first are `RUN.1`, `RUN.2`, …"""
    return run.partition(".")[0]


def attempt_of(run: str) -> int:
    """Return the number of the attempt `run`; 0 is the first."""
    return int(run.partition(".")[2] or 0)


def without_secrets(plan: RunPlan) -> RunPlan:
    """Return `plan` with MASK in place of the values of options that name a secret: a plan to record and to show."""
    return replace(plan, job=replace(plan.job, command=masked(plan.job.command)))


def replan(plan: RunPlan, names: Sequence[str]) -> RunPlan:
    """Return the plan of the attempt after `plan`, on these hosts in this order; the others are its spares. Pure."""
    hosts = {host.name: host for host in (*(node.host for node in plan.nodes), *plan.spares)}
    chosen = tuple(hosts.pop(name) for name in names)
    restart = plan.restart + 1
    return replace(
        plan,
        run=f"{base_of(plan.run)}.{restart}",
        nodes=_placed(chosen, plan.job),
        spares=tuple(hosts.values()),
        restart=restart,
    )


def _node_count(cluster: Cluster, job: JobSpec) -> int:
    """Return the number of nodes. Raises UsageError if it does not fit the cluster."""
    there = len(cluster.hosts)
    wanted = job.nodes if job.nodes is not None else there - job.spares
    if wanted < 1 or wanted + job.spares > there:
        raise UsageError(
            f"--nodes {max(wanted, 1)} and --spares {job.spares} need {max(wanted, 1) + job.spares} hosts, "
            f"and the inventory has {there} ({fold(cluster.names)})",
            hint=f"--spares {max(0, there - max(wanted, 1))}, or fewer --nodes",
        )
    if job.min_nodes is not None and job.min_nodes > wanted:
        raise UsageError(f"--min-nodes {job.min_nodes}: expected 1 … {wanted}, the nodes of the run")
    return wanted


def _placed(hosts: Sequence[Host], job: JobSpec) -> tuple[NodePlan, ...]:
    nodes: list[NodePlan] = []
    first_rank = 0
    for node_rank, host in enumerate(hosts):
        devices = host.devices[: job.ranks_per_node]
        count = 1 if job.framework.has_nodes_as_ranks else job.ranks_per_node or len(devices) or 1
        ranks = tuple(RankPlan(first_rank + local_rank, local_rank) for local_rank in range(count))
        nodes.append(NodePlan(host, node_rank, ranks, devices))
        first_rank += count
    return tuple(nodes)


def _check_devices(hosts: tuple[Host, ...], job: JobSpec) -> None:
    ranks_per_node, framework = job.ranks_per_node, job.framework
    if ranks_per_node is None:
        return
    bare = next((host.name for host in hosts if not host.devices), None)
    if framework.has_nodes_as_ranks and bare is not None:
        raise UsageError(
            f"--nproc-per-node {ranks_per_node}: with {framework.value} it is the number of devices of each node, "
            f"and {bare} has none in the inventory",
            hint="omit it, or gpus= / devices= in the inventory",
        )
    short = [host for host in hosts if host.devices and len(host.devices) < ranks_per_node]
    if short:
        most = min(len(host.devices) for host in short)
        raise UsageError(
            f"--nproc-per-node {ranks_per_node} is more than the devices of {fold(host.name for host in short)}",
            evidence=[
                f"{host.name}: {len(host.devices)} ({','.join(str(device) for device in host.devices)})"
                for host in short
            ],
            hint=f"--nproc-per-node {most}, or correct gpus= / devices= in the inventory",
        )
