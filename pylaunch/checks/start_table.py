"""The table of checks that decide a start, and why the others do not. `pylaunch check` runs all of them.

A check that can fail is passed over at a start only because of what it costs, and the row says so.
"""

from collections.abc import Sequence
from enum import Enum
from functools import partial

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.check import Check
from pylaunch.checks.selection import matches


class AtStart(Enum):
    """The part of a check in `pylaunch start`."""

    ASKED = "asked"
    """The probe runs it during the preparation; a failure refuses the start, a warning is printed."""

    REPORTED = "reported"
    """Judged from reports and connection attempts of the preparing agents; refuses and warns like ASKED."""

    AGENT = "agent"
    """The connection to the agent, or the agent itself, refuses; --skip and --no-check affect only GPUs."""

    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Row:
    """The part of one check in a start."""

    at_start: AtStart
    why: str
    """The part that decides, or the reason why it does not run. No final period."""


def _asked(why: str = "takes some hundredths of a second") -> Row:
    return Row(AtStart.ASKED, why)


_reported, _agent, _not_asked = (partial(Row, each) for each in (AtStart.REPORTED, AtStart.AGENT, AtStart.NOT_ASKED))

_SLOWER = "makes a run slower, does not stop it"
_PAST = "about past events of the host, does not decide whether ranks can run"
_SMI = "cost: nvidia-smi takes a second or more on a host with several GPUs"
_CGROUPS = "cost: every cgroup above the login is read"
_INFINIBAND = "cost: the ports are read from the adapters' firmware"
_NAMES = "cost: name servers that do not answer take seconds; an address that does not resolve fails network.ports"

START_TABLE: dict[str, Row] = {
    "reach.host": _agent(
        "a host that cannot be reached is refused; if only the checks did not reach it, that is printed"
    ),
    "reach.shell": _agent("output of a login shell breaks the connection to the agent, which refuses the start"),
    "reach.python": _agent("the agent does not start under an older Python"),
    "reach.sudo": _not_asked("a run does not need root"),
    "reach.hostname": _not_asked("ranks are placed by the inventory, not by the host's own name"),
    "reach.names": _agent(
        "a host name on the loopback refuses frameworks that listen there (JAX on CPUs); other names are not looked "
        f"up: {_NAMES}"
    ),
    "network.interface": _agent(
        "an interface that variables name and the host lacks, or the loopback of several hosts, refuses; other routes "
        "fail network.ports"
    ),
    "network.mtu": _not_asked("a warning; cost: routes of all pairs"),
    "network.link": _not_asked("a link that is down fails reach.host or network.ports; the rest warns"),
    "network.ports": _reported(
        "the agents connect to each other's ephemeral ports: up to 32 nodes all pairs, beyond that the two neighbours "
        "in the ring and the first node (cost: the number of pairs). The rendezvous port is held by the first agent "
        "and not tried; for --framework command a warning"
    ),
    "network.port_free": _agent("the first agent takes and holds the port"),
    "network.addresses": _not_asked("cost: an exchange over every connection; another machine fails network.ports"),
    "network.path_mtu": _not_asked("cost: full packets over every pair"),
    "time.offset": _reported("the connections to the agents measure it anyway"),
    "time.keeping": _not_asked("time.offset finds clocks that differ"),
    "limits.files": _asked(),
    "limits.locked_memory": _asked(),
    "limits.stack": _asked(),
    "limits.processes": _asked(),
    "limits.cgroup_processes": _not_asked(_CGROUPS),
    "limits.cgroup_memory": _not_asked(_CGROUPS),
    "storage.writable": _asked(),
    "storage.room": _asked(),
    "storage.shared_memory": _asked(),
    "host.memory": _asked(),
    "host.memory_uniform": _not_asked(_SLOWER),
    "host.processors_uniform": _not_asked(_SLOWER),
    "host.kernel": _asked(),
    "kernel.memory_kills": _not_asked(_PAST),
    "python_env.python": _reported("the agents report the version that the environment was made with"),
    "python_env.libraries": _reported(
        "the agents report the installed distributions; a host with pylaunch_attestation=off is left out"
    ),
    "python_env.files": _not_asked(
        "cost: reads the metadata of every installed file, 20,000 for torch; slow on network disks"
    ),
    "python_env.contents": _not_asked("cost: reads every installed file"),
    "login.variables": _asked(),
    "login.identity": _asked(),
    "code.files": _asked(),
    "code.tree": _asked(),
    "containers.engine": _agent("the agent makes the container, or refuses with the reason"),
    "leftovers.stale_processes": _agent("the agent removes them while it prepares"),
    "leftovers.stopped_agents": _agent("the agent looks for them while it prepares"),
    "leftovers.leases": _agent("the agent takes the leases"),
    "leftovers.shared_memory": _not_asked("storage.shared_memory fails when too little is left"),
    "leftovers.stale_ranks": _not_asked(
        "cost: reads every process of the host; a stale rank that holds the port or a lease is refused by the agent"
    ),
    "gpu.count": _agent(
        "the agent asks NVML, or for AMD's the kernel; --skip and --no-check switch off what agents verify of GPUs"
    ),
    "gpu.software": _agent(
        "the agent refuses a driver that is not loaded or does not answer; versions that differ are printed"
    ),
    "gpu.models": _not_asked("the agents report models and memory, and a difference is printed"),
    "gpu.fabric": _not_asked(_SMI),
    "gpu.settings": _agent("the agent refuses compute mode Prohibited and MIG without the name of an instance"),
    "gpu.memory": _agent("the agent refuses memory that waits for a reset, as gpu.count does"),
    "gpu.xid": _not_asked(_SMI),
    "gpu.nvlink": _not_asked(_SMI),
    "gpu.clocks": _not_asked(_SMI),
    "gpu.pcie": _not_asked(_SMI),
    "gpu.smoke": _not_asked("cost: seconds of full load on every GPU"),
    "gpu.free": _agent("the agent asks NVML for processes, as gpu.count does; devices of other runs are leased"),
    "gpu.cuda": _agent("the agent compares the CUDA of torch or JAX with that of the driver"),
    "infiniband.present": _not_asked(_INFINIBAND),
    "infiniband.state": _not_asked(_INFINIBAND),
    "infiniband.rate": _not_asked(_SLOWER),
    "infiniband.errors": _not_asked(_SLOWER),
    "infiniband.gids": _not_asked(_INFINIBAND),
    "infiniband.memlock": _not_asked(_INFINIBAND),
    "infiniband.gpudirect": _not_asked(_SLOWER),
}
"""Id of a check → its part in a start."""

FREED_BY_OTHERS = ("storage.room", "storage.shared_memory", "host.memory")
"""Checks that may pass when another run ends: a queued start does not refuse for them before its turn."""

REFUSALS: dict[str, str] = {
    "agent-stopped": "leftovers.stopped_agents",
    "already-prepared": "",
    "cannot-fork": "limits.processes",
    "cannot-start": "python_env.python",
    "container": "",
    "container-engine": "containers.engine",
    "container-gpu": "",
    "container-image": "containers.engine",
    "container-mount": "",
    "device-leased": "leftovers.leases",
    "disk-full": "storage.room",
    "ended-at-logout": "",
    "framework": "",
    "gpu-busy": "gpu.free",
    "gpu-cuda": "gpu.cuda",
    "gpu-fault": "gpu.memory",
    "gpu-missing": "gpu.count",
    "gpu-mode": "gpu.settings",
    "gpu-silent": "gpu.software",
    "hostname-loopback": "reach.names",
    "interface-missing": "network.interface",
    "interpreter-broken": "python_env.python",
    "launcher-missing": "",
    "leftovers-stay": "leftovers.stale_processes",
    "logs-not-writable": "storage.writable",
    "loopback-interface": "network.interface",
    "node-environment": "network.interface",
    "not-executable": "",
    "path-missing": "code.files",
    "port-busy": "network.port_free",
    "port-closed": "network.ports",
    "port-leased": "network.port_free",
    "port-unusable": "network.port_free",
    "program-elsewhere": "",
    "workdir-closed": "storage.writable",
    "workdir-missing": "storage.writable",
}
"""Code of a refusal (`protocol.Reason`) → the check for the same problem; "" where only a start finds it."""


def gpu_refusals(skip: Sequence[str]) -> list[str]:
    """Return the codes of the refusals for GPUs whose checks are not in `skip`."""
    checks = {code: check for code, check in REFUSALS.items() if code.startswith("gpu-")}
    return [code for code, check in checks.items() if not any(matches(check, name) for name in skip)]


def decides_before_queue(check: Check) -> bool:
    """Return whether a queued start runs `check` before it waits: the end of other runs cannot fix its findings."""
    return at_start(check) is AtStart.ASKED and check.id not in FREED_BY_OTHERS


def at_start(check: Check) -> AtStart:
    """Return the part of `check` in a start."""
    return START_TABLE[check.id].at_start
