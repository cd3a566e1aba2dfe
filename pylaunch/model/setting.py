"""Environment variables as they are set somewhere, and findings of their judges. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from pylaunch.base.dataclass import dataclass
from pylaunch.base.rank_environment import AGENT_VARIABLES
from pylaunch.errors import UsageError
from pylaunch.model.plan import NodeCommand, RunPlan

# fmt: off
PER_NODE = frozenset((
    "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME", "JAX_COORDINATOR_BIND_ADDRESS", "JAX_LOCAL_DEVICE_IDS",
    "JAX_PARTITION_INDEX", "JAX_SLICE_INDEX", "NCCL_CONF_FILE", "NCCL_CUDA_PATH", "NCCL_DEBUG_FILE",
    "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_HOSTID", "NCCL_IBVERBS_LIB", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA",
    "NCCL_MNNVL_CLIQUE_ID", "NCCL_MNNVL_UUID", "NCCL_OOB_NET_IFNAME", "NCCL_PROXY_CPUSET", "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_FILE", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_ETCD_BINARY_PATH",
    "TORCHELASTIC_TIMER_FILE", "TORCH_FR_DUMP_TEMP_FILE", "TP_SOCKET_IFNAME", "UCX_IB_GID_INDEX", "UCX_NET_DEVICES",
))
# fmt: on
"""Variables that may differ between nodes; all others must be the same in every rank."""

INTERFACE = r"(?!\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))[^\s/=^,\"']{1,15}"
"""Name of a network interface, not an address."""


class LintLevel(IntEnum):
    """Level of a finding. An error fails, or does not do what was intended."""

    WARNING = 1
    ERROR = 2


@dataclass(frozen=True)
class Setting:
    """A variable, set somewhere."""

    name: str
    value: str
    where: str
    """File and line, or the option."""


@dataclass(frozen=True)
class LintFinding:
    """Something to say about a setting."""

    severity: LintLevel
    where: str
    subject: str
    """The variable, with its value where that may be shown."""

    message: str
    instead: str | None = None
    """Text to write instead."""

    @property
    def line(self) -> str:
        """The finding in one line, without its severity."""
        return f"{self.where}: {self.subject}: {self.message}"


@dataclass(frozen=True)
class Circumstances:
    """Facts about the jobs that will have these variables."""

    machines: int | None = None
    """On how many machines they run; None when that is open."""

    debug: LintLevel | None = None
    """Level of a debugging variable, in settings that are kept for every job to come; None allows it."""

    @property
    def are_several(self) -> bool:
        """Return True if they run on several machines."""
        return self.machines is not None and self.machines > 1


Judge = Callable[[Sequence[Setting], Circumstances], Sequence[LintFinding]]
"""Return the findings about variables."""


def settings_of(variables: Mapping[str, str], where: str) -> list[Setting]:
    """Variables that are set in one place."""
    return [Setting(name, value, where) for name, value in variables.items()]


def machines(addresses: Iterable[str]) -> int:
    """Count the machines with these addresses; all on loopback are one."""
    return len({"lo" if each == "localhost" or each.startswith("127.") else each for each in addresses})


def of_interface(plan: RunPlan, count: int) -> Iterator[LintFinding]:
    """Yield an error for the name of an interface that leads to none of the other `count` machines of a run."""
    chosen = plan.job.interface
    names = {node.host.interface: "interface, in the inventory" for node in plan.nodes}
    for name, where in names.items() if chosen is None else ((chosen, "--interface"),):
        if name is None:
            continue
        if re.fullmatch(INTERFACE, name) is None:
            yield LintFinding(LintLevel.ERROR, where, name, "expected the name of an interface", "eth0")
        elif name == "lo" and count > 1:
            text = f"no other machine can be reached over it, and these are {count}"
            yield LintFinding(LintLevel.ERROR, where, name, text, "the interface that leads to the other nodes")


def refuse_errors(findings: Sequence[LintFinding], warn: Callable[[str], None]) -> None:
    """Pass the warnings to `warn`. Raises UsageError when there are errors."""
    for finding in findings:
        if finding.severity is LintLevel.WARNING:
            warn(f"warning: {_with_instead(finding)}")
    errors = [finding for finding in findings if finding.severity is LintLevel.ERROR]
    if errors:
        count = "a variable" if len(errors) == 1 else f"{len(errors)} variables"
        raise UsageError(
            f"{count} cannot be obeyed",
            evidence=[_with_instead(finding) for finding in errors],
        )


def _with_instead(finding: LintFinding) -> str:
    return f"{finding.line}; instead: {finding.instead}" if finding.instead else finding.line


def without_effect(plan: RunPlan, commands: Iterable[NodeCommand]) -> Iterator[LintFinding]:
    """Yield a warning for each variable of `plan` that the identity of every rank or the agent overrides."""
    identities = [rank.env.keys() for command in commands for rank in command.ranks]
    higher = set(AGENT_VARIABLES).union(set(identities[0]).intersection(*identities[1:]))
    for names, where in ((plan.job.env, "--env"), (plan.job.secrets, "--secret")):
        for name in names:
            if name in higher:
                text = "no effect: pylaunch sets this variable for each rank"
                yield LintFinding(LintLevel.WARNING, where, name, text)
