"""Contradictions of launcher lines: in the options of a command, with its batch script, between the nodes. Pure.

With the rendezvous backend c10d torchrun ignores --node_rank (https://github.com/pytorch/pytorch/issues/182223).
A batch script runs on the first node only; srun runs a line once for each task
(https://github.com/meta-llama/llama-cookbook/issues/491).
"""

from collections.abc import Iterator, Mapping, Sequence

from pylaunch.features.explain.judgement.indications.form import Excerpts
from pylaunch.features.explain.judgement.indications.indication import Indication
from pylaunch.features.explain.judgement.tables.devices import GpuTable, gpu_tables
from pylaunch.features.explain.judgement.tables.launch_lines import LaunchCommand, LaunchScript, launch_scripts
from pylaunch.model.diagnosis.confidence import Confidence

_STARTS_RANKS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed")
_ELASTIC = ("torchrun", "torch.distributed.run")
_SHARED = ("nnodes", "master_addr", "master_port", "rdzv_id", "rdzv_endpoint", "rdzv_backend")
"""Options that must be equal on all nodes of a run."""

MOST_COMPARED = 64
"""Commands, and tables of GPUs, of one log that are compared with each other."""

_ONE_HOST = ("nodelist", "w", "relative", "r")
_LOOPBACK = ("localhost", "127.0.0.1", "127.0.1.1", "::1")


def read(excerpts: Excerpts) -> Iterator[Indication]:
    """Yield the contradictions of the launcher lines of each log."""
    gpus: dict[str, list[GpuTable]] = {}
    for table in gpu_tables(excerpts):
        gpus.setdefault(table.excerpt.file, []).append(table)
    for script in launch_scripts(excerpts):
        launches = [command for command in script.commands if command.launcher in _STARTS_RANKS]
        for command in launches:
            yield from _of_options(command, script)
            yield from _of_script(command, script)
            yield from _of_devices(command, script, gpus.get(command.excerpt.file, ())[:MOST_COMPARED])
        for command in script.commands:
            if command.launcher == "srun" and command.program.startswith("python"):
                yield from _of_tasks(command, script)
        yield from _of_run(launches)


def _of_options(command: LaunchCommand, script: LaunchScript) -> Iterator[Indication]:
    nodes, options = command.number("nnodes"), command.options
    if nodes is None or nodes < 2:
        return
    address = options.get("master_addr") or options.get("rdzv_endpoint", "").rpartition(":")[0]
    address = address or command.variables.get("MASTER_ADDR") or script.variables.get("MASTER_ADDR", "")
    if address in _LOOPBACK:
        text = f"the coordinator's address is {address}, and the launch has {nodes} nodes"
        yield Indication("hosts-loopback", text, command.excerpt, 0, Confidence.MEDIUM)
    if "standalone" in options:
        text = f"--standalone starts one node, and --nnodes is {nodes}"
        yield Indication("launcher-config", text, command.excerpt, 0, Confidence.HIGH)
    rank = command.number("node_rank")
    if rank is not None and rank >= nodes:
        text = f"the node rank is {rank}, and the launch has {nodes} nodes, which count from 0"
        yield Indication("launcher-config", text, command.excerpt, 0, Confidence.HIGH)
    if command.launcher in _ELASTIC and options.get("rdzv_backend") == "c10d":
        if "rdzv_endpoint" not in options:
            text = f"no --rdzv_endpoint is set: each of the {nodes} nodes waits at a rendezvous of its own"
            yield Indication("launcher-config", text, command.excerpt, 0, Confidence.MEDIUM)
        if "node_rank" in options:
            text = "torchrun ignores --node_rank with --rdzv_backend=c10d: rank 0 may be on any node"
            yield Indication("launcher-config", text, command.excerpt, 0)
    processes = command.number("num_processes")
    if command.launcher == "accelerate" and processes is not None and processes % nodes:
        text = f"--num_processes is the total of all machines: {processes} cannot be divided by {nodes} machines"
        yield Indication("launcher-config", text, command.excerpt, 0, Confidence.MEDIUM)


def _of_script(command: LaunchCommand, script: LaunchScript) -> Iterator[Indication]:
    nodes, requested = command.number("nnodes"), script.nodes
    if nodes is not None and requested is not None and nodes != requested and not _is_for_one_host(command.srun):
        text = f"#SBATCH requests {requested} node{'s' * (requested > 1)}, and the launcher expects {nodes}"
        yield Indication("launcher-config", text, command.excerpt, 0, Confidence.MEDIUM, others=script.lines[:1])
    if nodes is None or nodes < 2:
        return
    if requested is not None and requested > 1 and not script.uses_srun and command.launcher != "deepspeed":
        text = f"the batch script starts {command.launcher} without srun: on the first of {requested} nodes only"
        yield Indication("rank-missing", text, command.excerpt, 0, Confidence.MEDIUM, others=script.lines[:1])
    if command.srun is None or command.launcher not in (*_ELASTIC, "torch.distributed.launch", "accelerate"):
        return
    tasks, processes = script.tasks_per_node(command), command.options.get("nproc_per_node", "1")
    if tasks is not None and tasks > 1 and processes != "1":
        text = f"srun starts {tasks} launchers on each node, and each starts all processes of the node"
        yield Indication("duplicate-launch", text, command.excerpt, 0, Confidence.MEDIUM, others=script.lines[:1])
    is_static = command.options.get("rdzv_backend", "static") == "static"
    if command.number("node_rank") is not None and is_static and requested != 1 and not _is_for_one_host(command.srun):
        text = f"srun runs this line on every node, all with node rank {command.options['node_rank']}"
        yield Indication("duplicate-launch", text, command.excerpt, 0, Confidence.MEDIUM)


def _is_for_one_host(srun: Mapping[str, str] | None) -> bool:
    return srun is not None and (srun.get("nodes") == "1" or any(name in srun for name in _ONE_HOST))


def _of_devices(command: LaunchCommand, script: LaunchScript, tables: Sequence[GpuTable]) -> Iterator[Indication]:
    processes = command.number("nproc_per_node")
    if processes is None:
        return
    visible = command.variables.get("CUDA_VISIBLE_DEVICES") or script.variables.get("CUDA_VISIBLE_DEVICES", "")
    devices = [each for each in visible.split(",") if each]
    if devices and len(devices) < processes:
        gpus = f"{len(devices)} GPU{'s' * (len(devices) > 1)}"
        text = f"CUDA_VISIBLE_DEVICES has {gpus}, and {processes} processes start on the node"
        yield Indication("app-device-mapping", text, command.excerpt, 0, Confidence.HIGH)
        return
    requested = script.gpus_per_node
    if requested is not None and requested < processes:
        text = f"#SBATCH requests {requested} GPUs per node, and {processes} processes start on it"
        yield Indication("app-device-mapping", text, command.excerpt, 0, Confidence.MEDIUM, others=script.lines[:1])
    for table in tables:
        if 0 < len(table.gpus) < processes:
            text = f"nvidia-smi lists {len(table.gpus)} GPUs, and {processes} processes start on the node"
            yield Indication("app-device-mapping", text, command.excerpt, 0, Confidence.LOW, others=(table.excerpt,))


def _of_tasks(command: LaunchCommand, script: LaunchScript) -> Iterator[Indication]:
    tasks, gpus = script.tasks_per_node(command), script.gpus_per_node
    if gpus is None or gpus < 2:
        return
    if tasks is None or tasks < gpus:
        text = (
            f"srun starts {tasks or 1} task{'s' * ((tasks or 1) > 1)} per node, and {gpus} GPUs per node are requested"
        )
        yield Indication("launcher-config", text, command.excerpt, 0, Confidence.LOW, others=script.lines[:1])
    elif tasks > gpus:
        text = f"srun starts {tasks} tasks per node, and {gpus} GPUs per node are requested"
        yield Indication("app-device-mapping", text, command.excerpt, 0, Confidence.MEDIUM, others=script.lines[:1])


def _of_run(commands: list[LaunchCommand]) -> Iterator[Indication]:
    """Yield differences between the commands that start the nodes of one run."""
    several = [each for each in commands if each.srun is None and (each.number("nnodes") or 0) > 1][:MOST_COMPARED]
    for at, one in enumerate(several):
        for other in several[at + 1 :]:
            if (one.launcher, one.program) != (other.launcher, other.program):
                continue
            ranks = one.number("node_rank"), other.number("node_rank")
            are_two_hosts = bool(one.host and other.host and one.host != other.host)
            if None in ranks and not are_two_hosts and one.excerpt.origin == other.excerpt.origin:
                continue
            if ranks[0] is not None and ranks[0] == ranks[1]:
                if are_two_hosts:
                    text = f"{one.host} and {other.host} are both started with node rank {ranks[0]}"
                    yield Indication("duplicate-launch", text, other.excerpt, 0, Confidence.HIGH, others=(one.excerpt,))
                continue
            for name in _SHARED:
                values = one.options.get(name, ""), other.options.get(name, "")
                if all(values) and values[0] != values[1]:
                    text = f"the nodes of one run are started with different --{name}: {values[0]} and {values[1]}"
                    yield Indication(
                        "launcher-config", text, other.excerpt, 0, Confidence.MEDIUM, others=(one.excerpt,)
                    )
