"""A plan as a script for another launcher, which needs no pylaunch on the nodes. Pure.

slurm      for sbatch: Slurm chooses nodes and devices, so names of hosts and indexes of devices are not in the script
torchrun   for bash on every node, with the number of the node as its argument
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from posixpath import dirname

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.model.hostset import fold
from pylaunch.model.job import USUAL_PORT, Framework
from pylaunch.model.plan import PORT_ENTRY, NodeCommand, NodePlan, RunPlan
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.render import interpreter, render

ELASTIC = ("TORCHELASTIC_", "ROLE_")
"""Prefixes of variables that describe torchrun's agent, which these scripts do not start."""

SET_BY_SLURM = ("CUDA_VISIBLE_DEVICES", "JAX_COORDINATOR_ADDRESS", "OMPI_MCA_orte_hnp_uri")
"""Variables of the plan that name a device or a host. JAX reads Slurm's own variables."""

OF_TASK = {
    "RANK": "SLURM_PROCID",
    "LOCAL_RANK": "SLURM_LOCALID",
    "WORLD_SIZE": "SLURM_NTASKS",
    "LOCAL_WORLD_SIZE": "SLURM_NTASKS_PER_NODE",
    "GROUP_RANK": "SLURM_NODEID",
    "GROUP_WORLD_SIZE": "SLURM_NNODES",
}
"""Variables of ranks, and the variables of a task with the same values."""

PORT_BY_JOB = 'export MASTER_PORT="$((61440 + SLURM_JOB_ID % 4096))"'
"""Above the ephemeral ports of Linux, and different for jobs on the same node."""

LONGEST_LABEL = 40
_NO_LABEL = re.compile(r"[^a-z0-9]+")
_START = "#!/usr/bin/env bash"
_STRICT = "set -euo pipefail"


@dataclass(frozen=True)
class Script:
    """A script, and how to use it."""

    text: str
    use: tuple[str, ...]
    """Shell lines that use it."""


def slurm_script(plan: RunPlan) -> Script:
    """Return the script for sbatch. Raises UsageError for nodes that differ in interpreter, ranks or devices."""
    if len({(len(node.ranks), len(node.devices)) for node in plan.nodes}) > 1:
        raise UsageError(
            "the nodes have different numbers of ranks or devices, and a script for sbatch has one for all nodes",
            hint="--nproc-per-node N, or --limit",
        )
    first, name = plan.nodes[0], f"{job_label(plan)}.sbatch"
    variables, left_out = _common_variables(plan)
    heading = [
        _title(plan),
        f"Submit it with: sbatch {name}",
        "Options on the command line of sbatch override the lines below: sbatch --partition=NAME --time=HH:MM:SS",
        "Slurm chooses the nodes and devices; to use those of the inventory: sbatch --nodelist=NAMES",
        *(["MASTER_PORT follows from the job id; --port N sets one"] if plan.port == PORT_ENTRY else []),
        *([f"Left out, because the hosts have different values: {', '.join(left_out)}"] if left_out else []),
    ]
    python = _common_python(plan)
    lines = [
        _START,
        *comments(heading),
        f"#SBATCH --job-name={job_label(plan)}",
        "#SBATCH --output=%x-%j.out",
        f"#SBATCH --nodes={len(plan.nodes)}",
        f"#SBATCH --ntasks-per-node={len(first.ranks)}",
        "#SBATCH --exclusive",  # The inventory does not know how many cores a rank needs.
        *([f"#SBATCH --gres=gpu:{len(first.devices)}"] if first.devices else []),
        _STRICT,
        *_path_line(plan, plan.coordinator),
        *_exported(variables),
        *_secret_guards(plan.job.secrets),
        "# Tasks get the environment of this script, also after sbatch --export=NONE.",
        "export SLURM_EXPORT_ENV=ALL",
        'mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        'export MASTER_ADDR="${hosts[0]}"',
        PORT_BY_JOB if plan.port == PORT_ENTRY else f"export MASTER_PORT={plan.port}",
        f"cd -- {shlex.quote(plan.job.workdir)}",
        "# Each task is one rank.",
        "# shellcheck disable=SC2016",
        "srun --kill-on-bad-exit=1 --label --cpu-bind=none bash -c '",
        *(f'  export {rank}="${of_task}"' for rank, of_task in OF_TASK.items()),
        *_of_framework(plan.job.framework),
        '  exec "$@"',
        f"' task {quoted(_rank_argv(plan, python))}",
    ]
    return Script("\n".join(lines) + "\n", (f"sbatch {name}",))


def _of_framework(framework: Framework) -> list[str]:
    if framework is Framework.JAX:
        return ['  export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"']
    return ['  set -- "$@" --local_rank="$LOCAL_RANK"'] if framework is Framework.DEEPSPEED else []


def _common_variables(plan: RunPlan) -> tuple[dict[str, str], list[str]]:
    """Return the variables that all nodes share, and the names of those that differ."""
    every = [
        {
            name: value
            for name, value in _shared_variables(plan, command).items()
            if name in plan.job.env or name not in SET_BY_SLURM
        }
        for _, command in render(plan)
    ]
    same = {name: value for name, value in every[0].items() if all(each.get(name) == value for each in every)}
    return same, sorted({name for each in every for name in each} - same.keys())


def _common_python(plan: RunPlan) -> str:
    """Return the interpreter of all nodes. Raises UsageError if the inventory names different ones."""
    found = {interpreter(plan, node): node.host.name for node in plan.nodes}
    if len(found) > 1:
        raise UsageError(
            f"the nodes have {len(found)} different interpreters, and a script for sbatch has one for all nodes",
            evidence=[f"{host}: {path}" for path, host in found.items()],
            hint="--python PATH",
        )
    return next(iter(found))


def _rank_argv(plan: RunPlan, python: str) -> tuple[str, ...]:
    is_python = plan.job.framework is not Framework.COMMAND
    return (python, "-u", *plan.job.command) if is_python else plan.job.command


def torchrun_script(plan: RunPlan) -> Script:
    """Return the script that each node runs with its number as the argument. Rendezvous is static, as the plan is."""
    name = f"{job_label(plan)}.sh"
    heading = [
        _title(plan),
        "Start it on every node with the number of the node; torchrun waits 15 minutes for the others",
    ]
    if plan.job.rendezvous_port is None:
        plan = replace(plan, job=replace(plan.job, rendezvous_port=USUAL_PORT))
        heading.append(f"MASTER_PORT is {USUAL_PORT}, and nothing verifies that it is free; --port N sets another")
    arms: dict[str, list[NodePlan]] = {}
    for node, command in render(plan):
        lines = [*_path_line(plan, node), *_exported(_shared_variables(plan, command))]
        lines += [f"python={shlex.quote(interpreter(plan, node))}", f"ranks={len(node.ranks)}"]
        arms.setdefault("".join(f"    {line}\n" for line in lines), []).append(node)
    cases = []
    for arm, nodes in arms.items():
        numbers = "|".join(str(node.node_rank) for node in nodes)
        hosts = visible_line(fold(node.host.name for node in nodes))
        cases.append(f"  {numbers}) # {hosts}\n{arm}    ;;")
    restarts = [f"  --max-restarts={plan.job.max_restarts} \\"] if plan.job.max_restarts else []
    lines = [
        _START,
        *comments(heading),
        _STRICT,
        f'case "${{1:?expected the number of this node, 0 to {len(plan.nodes) - 1}}}" in',
        *cases,
        '  *) echo "there is no node $1" >&2; exit 2 ;;',
        "esac",
        *_secret_guards(plan.job.secrets),
        f"cd -- {shlex.quote(plan.job.workdir)}",
        'exec "$python" -m torch.distributed.run \\',
        f'  --nnodes={len(plan.nodes)} --node-rank="$1" --nproc-per-node="$ranks" \\',
        f"  --master-addr={shlex.quote(plan.coordinator.host.rank_address)} --master-port={plan.port} \\",
        *restarts,
        f"  {quoted(plan.job.command)}",
    ]
    return Script("\n".join(lines) + "\n", tuple(_ssh_line(node, name) for node in plan.nodes))


def _ssh_line(node: NodePlan, script_name: str) -> str:
    """Return a command that runs a script on `node` over SSH."""
    ssh = node.host.ssh
    port = () if ssh.port is None else ("-p", str(ssh.port))
    user = "" if ssh.user is None else f"{ssh.user}@"
    return f"{quoted(('ssh', *port, user + node.host.address))} bash -s {node.node_rank} <{script_name}"


def comments(lines: Iterable[str]) -> list[str]:
    """Return `lines` as comments of a shell script: no character in them ends the comment."""
    return [f"# {visible_line(line)}" for line in lines]


def job_label(plan: RunPlan) -> str:
    """Return the name of the program as a DNS label: lower case, digits and hyphens; "job" for a name without any."""
    name = plan.job.entry[-1].rpartition("." if plan.job.script is None else "/")[2]
    name = name.removesuffix(".py").removesuffix(".sh")
    return _NO_LABEL.sub("-", name.lower()).strip("-")[:LONGEST_LABEL].strip("-") or "job"


def _title(plan: RunPlan) -> str:
    """Return the program, its ranks and nodes in one line."""
    nodes = "1 node" if len(plan.nodes) == 1 else f"{len(plan.nodes)} nodes"
    ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
    hosts = fold(node.host.name for node in plan.nodes)
    return f"{' '.join(plan.job.entry)}: {ranks} on {nodes} ({hosts}); written by pylaunch render"


def _shared_variables(plan: RunPlan, command: NodeCommand) -> dict[str, str]:
    """Return the variables of all ranks of a node. PATH is omitted unless a flag sets it: see `_path_line`."""
    return {
        name: value
        for name, value in command.env.items()
        if name in plan.job.env or (name != "PATH" and not name.startswith(ELASTIC))
    }


def _path_line(plan: RunPlan, node: NodePlan) -> list[str]:
    """Return a line that puts the interpreter's directory first in PATH; empty if a flag sets PATH."""
    directory = dirname(interpreter(plan, node))
    if "PATH" in plan.job.env or not directory:
        return []
    return [f'export PATH={shlex.quote(directory)}:"$PATH"']


def _exported(env: Mapping[str, str]) -> list[str]:
    """Return a line that exports each variable. A value that begins with = gets quotes: it is no comparison."""
    words = {
        name: f"'{value}'" if shlex.quote(value).startswith("=") else shlex.quote(value) for name, value in env.items()
    }
    return [f"export {name}={word}" for name, word in words.items()]


def _secret_guards(names: Sequence[str]) -> list[str]:
    """Return lines that end the script if a secret is not in the environment. The values are in no script."""
    if not names:
        return []
    return [
        "# Secrets are not in this file: they must be in the environment of this script.",
        *(f': "${{{name}:?is a secret of this job: export it first}}"' for name in names),
    ]
