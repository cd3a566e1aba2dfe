"""Environment variables as they are set somewhere, and findings of their judges. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, IntEnum

from pylaunch.base.dataclass import dataclass

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


class LintLevel(IntEnum):
    """Level of a finding. An error fails, or does not do what was intended."""

    INFO = 0
    WARNING = 1
    ERROR = 2


class VariablePlace(Enum):
    """Place where a variable is set, as far as that makes a difference."""

    NCCL_CONF = "nccl.conf"
    """File that only NCCL reads."""

    FILE = "file"
    """Kept for every job to come."""

    PROCESS = "process"
    """The environment of one job."""


@dataclass(frozen=True)
class Setting:
    """A variable, set somewhere."""

    name: str
    value: str
    where: str
    """File and line, or the option."""

    place: VariablePlace = VariablePlace.PROCESS


@dataclass(frozen=True)
class Source:
    """A public document."""

    title: str
    url: str


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

    source: Source | None = None

    @property
    def line(self) -> str:
        """The finding in one line, without its severity."""
        return f"{self.where}: {self.subject}: {self.message}"


@dataclass(frozen=True)
class Circumstances:
    """Facts about the jobs that will have these variables."""

    machines: int | None = None
    """On how many machines they run; None when that is open."""

    debug: LintLevel | None = LintLevel.WARNING
    """Level of a debugging variable that is kept; None allows it."""


Judge = Callable[[Sequence[Setting], Circumstances], Sequence[LintFinding]]
"""Return the findings about variables, each alone and all together. Of a name set twice the first holds."""


def settings_of(
    variables: Mapping[str, str], where: str, place: VariablePlace = VariablePlace.PROCESS
) -> list[Setting]:
    """Variables that are set in one place."""
    return [Setting(name, value, where, place) for name, value in variables.items()]


def machines(addresses: Iterable[str]) -> int:
    """Count the machines with these addresses; all on loopback are one."""
    return len({"lo" if each == "localhost" or each.startswith("127.") else each for each in addresses})
