"""torchrun: for each node a script with the exact command."""

import re
import shlex

import yaml

from pylaunch.errors import UsageError
from pylaunch.features.render_files.files import shell
from pylaunch.features.render_files.files.content import (
    FileSet,
    RenderedFile,
    file_stem,
    host_remarks,
    ssh_remarks,
    title,
)
from pylaunch.features.render_files.files.shell import comments, common_python
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.render import render
from pylaunch.render.environment import interpreter


def torchrun_files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return a script for each node."""
    notes = (*remarks, *host_remarks(plan))
    made = []
    for node, command in render(plan):
        name = f"torchrun-{file_stem(node)}.sh"
        ranks = [rank.rank for rank in node.ranks]
        heading = (
            title(plan),
            f"Node {node.node_rank}, {node.host.name}: {'rank' if len(ranks) == 1 else 'ranks'} {fold_ranks(ranks)}",
            "Start it on every node; torchrun waits 15 minutes for the others",
            *notes,
        )
        groups = launcher_groups(plan, node, f"--node-rank={node.node_rank}")
        words = shell.wrapped((interpreter(plan, node), "-m", "torch.distributed.run"), *groups)
        body = [*shell.setup(plan, node, command), "exec " + words[0], *words[1:]]
        made.append((node, RenderedFile(name, shell.script(heading, body))))
    return FileSet(
        tuple(file for _, file in made), tuple(shell.ssh_line(node, file.name) for node, file in made), notes
    )


def launcher_groups(plan: RunPlan, node: NodePlan, node_rank: str) -> tuple[Argv, ...]:
    """Return torchrun's options for `node` and the program, in groups. Rendezvous is static, as the plan is."""
    return (
        (f"--nnodes={len(plan.nodes)}", node_rank, f"--nproc-per-node={len(node.ranks)}"),
        (f"--master-addr={plan.coordinator.host.rank_address}", f"--master-port={plan.port}"),
        (f"--max-restarts={plan.job.max_restarts}",) if plan.job.max_restarts else (),
        plan.job.command,
    )


USE_CPU = "ACCELERATE_USE_CPU"
SCRIPT_DIRECTORY = 'here=$(cd -- "$(dirname -- "$0")" && pwd)'


def accelerate_files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return a configuration and a script for each machine."""
    notes = (*remarks, *_uneven(plan), *host_remarks(plan))
    made: list[RenderedFile] = []
    commands = []
    for node, command in render(plan):
        config, name = f"accelerate-{file_stem(node)}.yaml", f"accelerate-{file_stem(node)}.sh"
        heading = (title(plan), f"Machine {node.node_rank}, {node.host.name}. {name} starts it.", *notes)
        content = yaml.safe_dump(_config(plan, node, is_cpu=command.env[USE_CPU] == "true"), sort_keys=False)
        made.append(RenderedFile(config, "\n".join([*comments(heading), content])))
        argv: Argv = (interpreter(plan, node), "-m", "accelerate.commands.launch")
        option = f'  --config_file "$here/{config}" \\'
        entry: Argv = ("--module", *plan.job.command[1:]) if plan.job.script is None else plan.job.command
        body = [
            SCRIPT_DIRECTORY,
            *shell.setup(plan, node, command),
            f"exec {quoted(argv)} \\",
            option,
            f"  {quoted(entry)}",
        ]
        heading = (title(plan), f"Machine {node.node_rank}, {node.host.name}. It needs {config} beside it.", *notes)
        made.append(RenderedFile(name, shell.script(heading, body)))
        commands.append(f"bash {quoted((name,))}  # on {node.host.name}")
    return FileSet(tuple(made), tuple(commands), notes)


def _config(plan: RunPlan, node: NodePlan, *, is_cpu: bool) -> dict[str, object]:
    """Return the fields of accelerate's ClusterConfig that the plan decides, and the mandatory ones."""
    machines = len(plan.nodes)
    is_alone = plan.world_size == 1
    config: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": False,
        "distributed_type": "NO" if is_alone else "MULTI_GPU",
        "downcast_bf16": "no",
        "enable_cpu_affinity": False,
    }
    if node.devices and not is_cpu:
        config["gpu_ids"] = ",".join(map(str, node.devices))
    config["machine_rank"] = node.node_rank
    if machines > 1:
        config["main_process_ip"] = plan.coordinator.host.rank_address
    if not is_alone:
        config["main_process_port"] = int(plan.port)
    config |= {
        "main_training_function": "main",
        "mixed_precision": "no",
        "num_machines": machines,
        "num_processes": len(node.ranks) * machines,
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": is_cpu and is_alone,
    }
    return config


def _uneven(plan: RunPlan) -> tuple[str, ...]:
    if len({len(node.ranks) for node in plan.nodes}) == 1:
        return ()
    text = f"The machines have different numbers of ranks, {plan.world_size} together: accelerate divides num_processes"
    return (f"{text} by num_machines, so each machine has its own number times num_machines",)


HOSTFILE, VARIABLES, SCRIPT = "hostfile", "deepspeed.env", "deepspeed.sh"
_IN_DOUBLE_QUOTES = re.compile(r'(["$`\\])')


def deepspeed_files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
    """Return the files of the node on which the launcher starts. Raises UsageError for a job that they cannot hold."""
    python = common_python(plan)
    commands = render(plan)
    node, command = commands[0]
    is_alone = len(plan.nodes) == 1
    variables = {} if is_alone else _variables(plan, [each for _, each in commands])
    notes = (*remarks, *_left_out(plan, commands), *_secrets(plan), *ssh_remarks(plan), *host_remarks(plan))
    heading = (title(plan), f"Start it on one node that reaches the others by ssh and has pdsh: bash {SCRIPT}", *notes)
    hostfile = [] if is_alone else [f'  --hostfile "$here/{HOSTFILE}" \\']
    arguments = plan.job.command[len(plan.job.entry) :]
    entry = ("--module", plan.job.entry[1]) if plan.job.script is None else plan.job.entry
    words = shell.wrapped(
        _devices(plan),
        ("--master_addr", plan.coordinator.host.rank_address, "--master_port", plan.port),
        (*entry, *(arguments if is_alone else map(through_shell, arguments))),
    )
    body = [
        *([] if is_alone else [SCRIPT_DIRECTORY]),
        *shell.path_line(plan, node),
        *(shell.exported(_without_devices(plan, command)) if is_alone else [f'export DS_ENV_FILE="$here/{VARIABLES}"']),
        *(shell.secret_guards(plan.job.secrets) if is_alone else []),
        *shell.change_directory(plan),
        f"exec {quoted((python, '-m', 'deepspeed.launcher.runner'))} \\",
        *hostfile,
        "  " + words[0],
        *words[1:],
    ]
    lines = [f"{each.host.address} slots={_slots(each)}" for each in plan.nodes]
    made = [RenderedFile(SCRIPT, shell.script(heading, body))]
    if not is_alone:
        text = "".join(f"{name}={_escaped(value)}\n" for name, value in variables.items())
        made.insert(0, RenderedFile(VARIABLES, text))
        made.insert(0, RenderedFile(HOSTFILE, "\n".join([*comments((title(plan),)), *lines]) + "\n"))
    return FileSet(tuple(made), (f"bash {SCRIPT}",), notes)


def _slots(node: NodePlan) -> int:
    """Return the number of slots that DeepSpeed must know: it numbers devices from 0."""
    return max(node.devices) + 1 if node.devices else len(node.ranks)


def _devices(plan: RunPlan) -> Argv:
    """Return the option that selects the devices of each node, "n1:0,1@n2:2,3" for several.

    Raises UsageError for IPv6 addresses.
    """
    node = plan.nodes[0]
    if colons := [each.host.name for each in plan.nodes if ":" in each.host.address]:
        raise UsageError(
            f"{fold(colons)}: DeepSpeed selects devices as HOST:0,1, so HOST cannot be an IPv6 address",
            hint="ansible_host=NAME in the inventory",
        )
    if len(plan.nodes) == 1 and node.devices in ((), tuple(range(len(node.devices)))):
        return ("--num_gpus", str(len(node.ranks)))
    selected = (
        f"{each.host.address if len(plan.nodes) > 1 else 'localhost'}:"
        + ",".join(map(str, each.devices or range(len(each.ranks))))
        for each in plan.nodes
    )
    return ("--include", "@".join(selected))


def _variables(plan: RunPlan, commands: list[NodeCommand]) -> dict[str, str]:
    """Return variables that are the same on all nodes. Raises UsageError for a value with a line break."""
    first = _without_devices(plan, commands[0])
    same = {name: value for name, value in first.items() if all(command.env.get(name) == value for command in commands)}
    for name, value in same.items():
        if "\n" in value:
            raise UsageError(f"--env {name}: DeepSpeed's file of variables cannot hold a value with a line break")
    return same


def _without_devices(plan: RunPlan, command: NodeCommand) -> dict[str, str]:
    """Return the variables of all ranks but CUDA_VISIBLE_DEVICES, which the launcher sets from its slots."""
    variables = shell.shared_variables(plan, command)
    if "CUDA_VISIBLE_DEVICES" not in plan.job.env:
        variables.pop("CUDA_VISIBLE_DEVICES", None)
    return variables


def _left_out(plan: RunPlan, commands: tuple[tuple[NodePlan, NodeCommand], ...]) -> tuple[str, ...]:
    """Report variables that differ between nodes, because DeepSpeed exports one set everywhere."""
    all_of = [_without_devices(plan, command) for _, command in commands]
    names = sorted({name for each in all_of for name in each if any(other.get(name) != each[name] for other in all_of)})
    if not names:
        return ()
    return (f"Left out, because DeepSpeed sets the same variables on all nodes: {', '.join(names)}",)


def _secrets(plan: RunPlan) -> tuple[str, ...]:
    if not plan.job.secrets or len(plan.nodes) == 1:
        return ()
    hosts = fold(node.host.name for node in plan.nodes)
    names = ", ".join(plan.job.secrets)
    return (f"DeepSpeed forwards no secret: {names} must be in the environment of ssh sessions on {hosts}",)


def _escaped(value: str) -> str:
    """Return `value` so that DeepSpeed's export of it has its meaning."""
    return _IN_DOUBLE_QUOTES.sub(r"\\\1", value) if re.search(r"[^\w@%+=:,./-]", value.strip()) else value


def through_shell(word: str) -> str:
    """Return an argument so that it survives the shell of each node: DeepSpeed quotes those with spaces, no others."""
    if " " in word:
        return re.sub(r"([$`\\])", r"\\\1", word)
    return shlex.quote(word)
