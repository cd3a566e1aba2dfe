"""Parts of shell scripts that start ranks without pylaunch on the nodes, which `pylaunch render` writes."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from posixpath import dirname

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.model.plan import NodeCommand, NodePlan, RunPlan
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.render.environment import interpreter

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
