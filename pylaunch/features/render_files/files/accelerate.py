"""accelerate: for each machine a configuration of `accelerate launch`, and a script with its environment.

Measured with accelerate 1.15: the launcher starts num_processes // num_machines processes on each machine, so every
machine gets the total for which that quotient is its own number; torchrun, which accelerate starts, adds the real
numbers up. distributed_type MULTI_CPU does not start processes, and MULTI_GPU with ACCELERATE_USE_CPU does.
"""

import yaml

from pylaunch.features.render_files.files import shell
from pylaunch.features.render_files.files.content import FileSet, RenderedFile, file_stem, host_remarks, title
from pylaunch.features.render_files.files.shell import comments
from pylaunch.model.plan import NodePlan, RunPlan
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.render import render
from pylaunch.render.environment import interpreter

USE_CPU = "ACCELERATE_USE_CPU"
SCRIPT_DIRECTORY = 'here=$(cd -- "$(dirname -- "$0")" && pwd)'


def files(plan: RunPlan, remarks: tuple[str, ...]) -> FileSet:
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
