"""Slurm in a lab, for tests only: slurmctld on the first node, slurmd and munge on all.

It proves that pylaunch works with Slurm, and nothing about how to run Slurm: processes are not contained by cgroups,
every daemon is root's, and times are short.
"""

import hashlib
import shlex
from collections.abc import Mapping, Sequence

from lab.images.tools import Report
from lab.nodes.machine import Machine
from lab.nodes.waiting import reached
from lab.spec import LabSpec
from pylaunch.errors import LabError

ADDITION = "slurm"
SERVICES = ("slurmctld", "slurmd", "munge")
"""Units that `start` starts, and that do not start on their own."""

KEY = "etc/munge/munge.key"
COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sinfo", "srun", "salloc")
READY_S = 180.0
CPUS, MEMORY_MIB = 4, 2000
GPUS = (3, 1)
"""GPUs of the first nodes, for Slurm alone: each is a name of /dev/null. Further nodes have none."""

_CONFIGURATION = """\
# Written by python -m lab, for tests only.
ClusterName=lab
SlurmctldHost={controller.name}({controller.address})
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
InactiveLimit=0
KillWait=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=300
SlurmdParameters=config_overrides
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_min_interval=0
{nodes}
PartitionName=lab Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=2
"""

_COMMAND = """\
#!/bin/sh
# {program} on {node} of lab {lab}.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec nsenter --target {leader} --mount --uts --ipc --net -- {program} "$@"
"""


def files(node: Machine) -> Mapping[str, str]:
    """Return the files of `node` for Slurm, by path relative to its root."""
    nodes = [Machine(name, node.lab, node.machines) for name in node.lab.nodes]
    gpus = {each.name: count for each, count in zip(nodes, GPUS, strict=False)}
    lines = "\n".join(
        f"NodeName={each.name} NodeAddr={each.address} CPUs={CPUS} RealMemory={MEMORY_MIB} State=UNKNOWN"
        + (f" Gres=gpu:{gpus[each.name]}" if each.name in gpus else "")
        for each in nodes
    )
    hosts = "\n".join(["127.0.0.1\tlocalhost", *(f"{each.address}\t{each.name}" for each in nodes)])
    return {
        "etc/slurm/slurm.conf": _CONFIGURATION.format(controller=nodes[0], nodes=lines),
        # Detection fails where this machine also has the hierarchies of version 1. No plugin here uses cgroups.
        "etc/slurm/cgroup.conf": "CgroupPlugin=cgroup/v1\n",
        "etc/slurm/gres.conf": "".join(
            f"NodeName={name} Name=gpu File=/etc/slurm/gpu[0-{count - 1}]\n" for name, count in gpus.items()
        ),
        "etc/hosts": hosts + "\n",
        # All nodes of the lab have the same key, and no other lab has it.
        KEY: hashlib.sha512(node.lab.paths.key.read_bytes()).hexdigest(),
    }


def start(spec: LabSpec, nodes: Sequence[Machine], report: Report) -> None:
    """Start Slurm on `nodes` and wait until all are idle. Raises LabError with the words of slurmctld."""
    report("starting Slurm, for tests only: its processes are not contained by cgroups")
    first = nodes[0]
    for node in nodes:
        controller = ("slurmctld",) if node is first else ()
        node.run("mkdir", "-p", "/var/lib/slurm/slurmctld", "/var/lib/slurm/slurmd")
        for index in range(max(GPUS)):
            # slurmd accepts only devices.
            node.run("ln", "-s", "/dev/null", f"/etc/slurm/gpu{index}")
        node.run("systemctl", "start", "--no-block", "munge", *controller, "slurmd")
    if not reached(lambda: are_idle(first, len(nodes)), READY_S):
        shown = first.run("sinfo", "--Node", "--long", check=False)
        raise LabError(
            f"Slurm of lab {spec.name} is not ready within {READY_S:g} s",
            evidence=[*shown.stdout.splitlines(), *shown.stderr.splitlines()],
            hint=f"python -m lab ssh --name {spec.name} {first.name} -- tail /var/log/slurmctld.log",
        )
    commands = spec.paths.slurm_commands
    commands.mkdir()
    for program in COMMANDS:
        script = commands / program
        script.write_text(
            _COMMAND.format(program=program, node=first.name, lab=shlex.quote(spec.name), leader=first.leader)
        )
        script.chmod(0o755)


def are_idle(first: Machine, count: int) -> bool:
    """Return whether slurmctld on `first` reports `count` nodes, all of them idle."""
    shown = first.run("sinfo", "--noheader", "--Node", "--partition=lab", "--format=%T", check=False)
    return shown.ok and shown.stdout.split() == ["idle"] * count
