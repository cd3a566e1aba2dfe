"""The hosts of a cluster and what the inventory says they have."""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property

from pylaunch.base.dataclass import dataclass, field, replace

NODE_ROOT = "/var/tmp/pylaunch-{user}"
"""Directory of pylaunch on a host. Local to the node and kept across reboots; homes may be shared by NFS.
`{user}` is filled in on the node with the numeric user id."""

ENV_ROOT = "/opt/pylaunch"
"""Root of the environments of the role python_env: `<env root>/envs/<lock hash>`, the link `<env root>/current`, and
`<env root>/named/NAME` for the environment of each project that has one."""


class Connection(Enum):
    """Kind of connection to a host."""

    SSH = "ssh"
    LOCAL = "local"
    SLURM = "slurm"
    """Steps of a Slurm job, started with srun."""

    NONE = "none"
    """No connection: the host is known by name alone, from a run that another controller started."""


@dataclass(frozen=True)
class SshOptions:
    """Options of OpenSSH beyond the user's own configuration. None leaves the choice to that configuration."""

    user: str | None = None
    port: int | None = None
    private_key: str | None = None
    common_args: tuple[str, ...] = ()
    """Arguments of every ssh, as in Ansible's `ansible_ssh_common_args`: jump hosts, ciphers."""


@dataclass(frozen=True)
class Host:
    """A machine in the inventory."""

    name: str
    address: str
    """Address for SSH, and for other nodes unless `fabric_address` is set."""

    connection: Connection = Connection.SSH
    ssh: SshOptions = field(default_factory=SshOptions)
    slurm_job: str | None = None
    """Id of the Slurm job whose steps reach the host; set exactly for `Connection.SLURM`."""

    slurm_gpus: int | None = None
    """Number of GPUs that each of these steps requests; None where Slurm gives them those of the job."""

    devices: tuple[int, ...] = ()
    """Accelerator indexes that runs may use (`gpus=8` is 0..7). Empty: the host computes on its CPU."""

    withholds_devices: bool = False
    """Others have accelerators of this host, by a scheduler or another role: ranks see none beside `devices`, and none
    without them."""

    interface: str | None = None
    """Network interface for rank traffic; None lets the frameworks choose."""

    fabric_address: str | None = None
    """Address the other nodes use for rank traffic, when it is not `address`."""

    topology: tuple[str, ...] = ()
    """Location in the network, from the outside in: ("rack1", "switch3"). Empty if the inventory has none."""

    python: str | None = None
    """Interpreter that runs the ranks; None is the one provisioned under `env_root`."""

    agent_python: str = "/usr/bin/python3"
    """Interpreter that runs pylaunch's agent; any Python ≥ 3.8."""

    node_root: str = NODE_ROOT
    env_root: str = ENV_ROOT
    env_name: str | None = None
    """Environment of this project under `env_root`; None is the one without a name."""

    @property
    def rank_address(self) -> str:
        """Address at which other nodes reach the ranks of this host."""
        return self.fabric_address or self.address

    @property
    def rank_python(self) -> str:
        """The interpreter that runs ranks here when the job names none."""
        link = "current" if self.env_name is None else f"named/{self.env_name}"
        return self.python or f"{self.env_root}/{link}/bin/python"


@dataclass(frozen=True)
class Cluster:
    """All hosts, in rank order."""

    hosts: tuple[Host, ...]
    sources: tuple[str, ...] = ()
    """Absolute paths of the inventory files this came from, to give to Ansible again; empty for this machine alone."""

    known_hosts: str | None = None
    """Absolute path of the project's known_hosts file, used next to the user's own."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the hosts, in rank order."""
        return tuple(host.name for host in self.hosts)

    @property
    def env_name(self) -> str | None:
        """Name of the Python environment of this project; None is the one without a name."""
        return self.hosts[0].env_name if self.hosts else None

    @cached_property
    def _by_name(self) -> Mapping[str, Host]:
        return {host.name: host for host in reversed(self.hosts)}

    def __getitem__(self, name: str) -> Host:
        return self._by_name[name]

    def only(self, names: Iterable[str]) -> "Cluster":
        """Return the cluster reduced to `names`, still in rank order. Raises KeyError for an unknown name."""
        wanted = set(names)
        if missing := wanted - set(self.names):
            raise KeyError(", ".join(sorted(missing)))
        return replace(self, hosts=tuple(host for host in self.hosts if host.name in wanted))

    def with_env_name(self, name: str) -> "Cluster":
        """Return the cluster with the environment `name` on each host."""
        return replace(self, hosts=tuple(replace(host, env_name=name) for host in self.hosts))

    def without_devices(self) -> "Cluster":
        """Return the cluster for a job that computes on CPUs: it takes no device from a run, and needs no free one."""
        return replace(self, hosts=tuple(replace(host, devices=()) for host in self.hosts))
