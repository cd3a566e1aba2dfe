"""Parts of shell scripts that start ranks without pylaunch on the nodes, which `pylaunch render` writes."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from posixpath import dirname

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.render import interpreter

ELASTIC = ("TORCHELASTIC_", "ROLE_")
"""Prefixes of variables that describe torchrun's agent, which these files do not start."""

_NO_LABEL = re.compile(r"[^a-z0-9]+")
LONGEST_LABEL = 40

SHEBANG = "#!/usr/bin/env bash"
STRICT = "set -euo pipefail"


def script(heading: Sequence[str], body: Iterable[str]) -> str:
    """Return a bash script that begins with `heading` as comments and ends with the first command that fails."""
    return "\n".join([SHEBANG, *comments(heading), STRICT, *body]) + "\n"


def label(name: str) -> str:
    """Return `name` as a DNS label: lower case, digits and hyphens; "job" for a name without any."""
    return _NO_LABEL.sub("-", name.lower()).strip("-")[:LONGEST_LABEL].strip("-") or "job"


def exported(env: Mapping[str, str]) -> list[str]:
    """Return a line that exports each variable."""
    return [f"export {name}={assigned(value)}" for name, value in env.items()]


def assigned(text: str) -> str:
    """Return `text` as a word. One that begins with = gets quotes, so that nobody reads a comparison."""
    word = shlex.quote(text)
    return f"'{text}'" if word.startswith("=") else word


def shared_variables(plan: RunPlan, command: NodeCommand) -> dict[str, str]:
    """Return the variables of all ranks of a node. PATH is omitted unless a flag sets it: see `path_line`."""
    return {
        name: value
        for name, value in command.env.items()
        if name in plan.job.env or (name != "PATH" and not name.startswith(ELASTIC))
    }


def path_line(plan: RunPlan, node: NodePlan) -> list[str]:
    """Return a line that puts the interpreter's directory first in PATH; empty if a flag sets PATH."""
    directory = dirname(interpreter(plan, node))
    if "PATH" in plan.job.env or not directory:
        return []
    return [f'export PATH={shlex.quote(directory)}:"$PATH"']


def secret_guards(names: Sequence[str]) -> list[str]:
    """Return lines that end the script if a secret is not in the environment. The values are in no file."""
    if not names:
        return []
    return [
        "# Secrets are not in this file: they must be in the environment of this script.",
        *(f': "${{{name}:?is a secret of this job: export it first}}"' for name in names),
    ]


def setup(plan: RunPlan, node: NodePlan, command: NodeCommand) -> list[str]:
    """Return the lines before the command of `node`: variables, secrets, working directory."""
    return [
        *path_line(plan, node),
        *exported(shared_variables(plan, command)),
        *secret_guards(plan.job.secrets),
        *change_directory(plan),
    ]


def change_directory(plan: RunPlan) -> list[str]:
    """Return the line that enters the working directory."""
    return [f"cd -- {shlex.quote(plan.job.workdir)}"]


def wrapped(*groups: Argv, indent: str = "") -> list[str]:
    """Return one command as lines, a group of words on each, joined by backslashes."""
    lines = [quoted(group) for group in groups if group]
    last = len(lines) - 1
    return [
        f"{indent}{'  ' if number else ''}{line}{'' if number == last else ' ' + chr(92)}"
        for number, line in enumerate(lines)
    ]


def ssh_line(node: NodePlan, script_name: str) -> str:
    """Return a command that runs a script on `node` over SSH."""
    ssh = node.host.ssh
    port = () if ssh.port is None else ("-p", str(ssh.port))
    user = "" if ssh.user is None else f"{ssh.user}@"
    return f"{quoted(('ssh', *port, user + node.host.address))} bash -s <{shlex.quote(script_name)}"


def comments(lines: Iterable[str]) -> list[str]:
    """Return `lines` as comments of a shell script, YAML or hostfile: no character in them ends the comment."""
    return [f"# {visible_line(line)}" for line in lines]


def is_python(plan: RunPlan) -> bool:
    """Return True for a script or module of Python."""
    return plan.job.framework is not Framework.COMMAND


def common_python(plan: RunPlan) -> str:
    """Return the interpreter of all nodes. Raises UsageError if the inventory names different ones."""
    found = {interpreter(plan, node): node.host.name for node in plan.nodes}
    if len(found) > 1:
        raise UsageError(
            f"the nodes have {len(found)} different interpreters, and these files have one for all nodes",
            evidence=[f"{host}: {path}" for path, host in found.items()],
            hint="--python PATH",
        )
    return next(iter(found))


def rank_argv(plan: RunPlan, python: str) -> tuple[str, ...]:
    """Return the command line of a rank without a launcher."""
    return (python, "-u", *plan.job.command) if is_python(plan) else plan.job.command


_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class RenderedFile:
    """A file to write, with a name that is safe in any directory."""

    name: str
    text: str


@dataclass(frozen=True)
class FileSet:
    """Files for one launcher."""

    files: tuple[RenderedFile, ...]
    commands: tuple[str, ...]
    """Shell lines that use the files, in the directory of the files."""

    remarks: tuple[str, ...] = ()
    """Values that the plan does not have and defaults stand for, one line each. The files contain them, too."""


def file_stem(node: NodePlan) -> str:
    """Return the name of the host as part of a file name, or the node rank if a path cannot have that name."""
    return node.host.name if _SAFE_NAME.fullmatch(node.host.name) else f"_node{node.node_rank}"


def job_label(plan: RunPlan) -> str:
    """Return the name of the program as a DNS label: lower case, digits and hyphens; "job" for a name without any."""
    name = plan.job.entry[-1].rpartition("." if plan.job.script is None else "/")[2]
    name = name.removesuffix(".py").removesuffix(".sh")
    return label(name)


def title(plan: RunPlan) -> str:
    """Return the program, its ranks and nodes in one line."""
    nodes = "1 node" if len(plan.nodes) == 1 else f"{len(plan.nodes)} nodes"
    ranks = "1 rank" if plan.world_size == 1 else f"{plan.world_size} ranks"
    hosts = fold(node.host.name for node in plan.nodes)
    return f"{' '.join(plan.job.entry)}: {ranks} on {nodes} ({hosts}); written by pylaunch render"


def host_remarks(plan: RunPlan) -> tuple[str, ...]:
    """Return what the inventory does not say about the hosts of `plan`."""
    found: list[str] = []
    bare = [node.host.name for node in plan.nodes if not node.host.devices]
    if bare and plan.job.ranks_per_node is None:
        have = "has" if len(bare) == 1 else "have"
        found.append(f"{fold(bare)} {have} no gpus= or devices= in the inventory: one rank on each, on its CPU")
    unnamed = [node.host.name for node in plan.nodes if node.host.interface is None]
    if len(plan.nodes) > 1 and plan.job.interface is None and unnamed:
        of_some = f" for {fold(unnamed)}" if len(unnamed) < len(plan.nodes) else ""
        found.append(f"No network interface is named{of_some}: the framework chooses one; --interface NAME sets it")
    return tuple(found)
