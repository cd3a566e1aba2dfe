"""`pylaunch render`: the plan of a start as a script for another launcher."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from posixpath import basename
from typing import Any

import click

from pylaunch import features
from pylaunch.agent.shared.scripts import choose, read_program
from pylaunch.base.dataclass import replace
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features import refuse_variables, start_file
from pylaunch.features.render_files.scripts import Script, slurm_script, torchrun_script
from pylaunch.inventory import load_cluster
from pylaunch.model.job import Framework
from pylaunch.model.plan import RunPlan
from pylaunch.model.secret import has_password, secret_options, variable_of
from pylaunch.model.text.argv import pylaunch
from pylaunch.render import plan_start
from pylaunch.store import runs
from pylaunch.terminal import console, options
from pylaunch.terminal.flags.start import Program, StartFlags, environment, options_of, source_directory, understood
from pylaunch.terminal.options import GroupedCommand, added

EXAMPLES = """\b
Examples:
  pylaunch render slurm -i cluster.ini -- train.py --lr 3 >train.sbatch
  pylaunch render torchrun -i cluster.ini -- train.py >train.sh
"""

SLURM, TORCHRUN = "slurm", "torchrun"
OTHER_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Programs whose command lines are accepted as those of a script."""

_OWN = (
    options.inventory,
    options.limit,
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- SCRIPT [ARGS]..."),
)


@click.group(epilog=EXAMPLES)
def command() -> None:
    """Print the plan of a start as a script for another launcher. No host is contacted.

    The script needs no pylaunch on the nodes. It contains no secrets: those that are left out are listed.
    """


def _subcommand(target: str, summary: str, script_of: Callable[[RunPlan], Script]) -> None:
    """Add the subcommand of `target`, with the options of a plan."""

    def call(inventory: Path | None, limit: str | None, **given: Any) -> int:
        plan = _plan(target, StartFlags(**given), inventory, limit)
        made = script_of(plan)
        for line in made.text.splitlines():
            console.data(line)
        if plan.job.secrets:
            console.say(f"note: left out, because they are secret: {', '.join(plan.job.secrets)}")
        console.say("use: " + "\n     ".join(made.use))
        return ExitCode.DONE

    verb = f"render {target}"
    function = added((*options_of("render", verb), *features.options(verb)))(call)
    for option in _OWN:
        function = option(function)
    settings = {"allow_interspersed_args": False}
    command.command(target, cls=GroupedCommand, help=summary, context_settings=settings)(function)


def _plan(target: str, typed: StartFlags, inventory: Path | None, limit: str | None) -> RunPlan:
    """Return the plan of a start of the program.

    Raises UsageError for one that the target cannot start, and for a secret on the command line or in a variable,
    because the script would contain it.
    """
    if start_file(typed.words) is not None:
        raise UsageError(
            f"{typed.words[0]}: {target} starts one program, not the roles of a job file",
            hint=pylaunch("start", typed.words[0]),
        )
    chosen, flags = _program(target, typed)
    env = environment(flags.env, flags.secret, os.environ)
    if target == SLURM and (chosen.framework is Framework.TORCHRUN or chosen.framework.has_nodes_as_ranks):
        raise UsageError(
            f"slurm starts one task for each rank, and no {chosen.framework.value}",
            hint=pylaunch("start", "--", *chosen.words),
        )
    job = flags.job(chosen.words, chosen.framework, env, None, is_unread=chosen.is_unread)
    cluster = load_cluster(inventory, limit=limit)
    _refuse_secrets(job.command, job.env)
    planned = plan_start(cluster, job, runs.new_run_id(), console.say)
    refuse_variables(planned, console.say)
    return planned.plan


def _refuse_secrets(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise UsageError for an argument or a variable that is probably a secret."""
    for option in secret_options(command):
        if option.startswith("argument "):
            raise UsageError(
                f"{option} is a URL with a password, and the files would contain it",
                hint="pass it in a variable: --secret NAME",
            )
        name = variable_of(option)
        raise UsageError(
            f"{option}: its value is probably a secret, and the files would contain it",
            hint=f"let the script read the variable {name}, and name it: --secret {name}",
        )
    for name, text in env.items():
        if has_password(text):
            raise UsageError(
                f"{name} is a URL with a password, and the files would contain it",
                hint=f"--secret {name} in place of --env {name}",
            )


def _program(target: str, flags: StartFlags) -> tuple[Program, StartFlags]:
    """Return the program under the framework of `target`. Raises UsageError for one that the target cannot start."""
    if not flags.words:
        raise UsageError("nothing to run", hint=pylaunch("render", target, "--", "train.py"))
    if target == SLURM:
        return understood(flags, None)
    first = flags.words[0]
    if not (flags.module or first.endswith(".py") or first == "-m" or basename(first) in OTHER_LAUNCHERS):
        raise UsageError(
            f"torchrun starts Python scripts, and {first} does not end in .py",
            hint=f"{pylaunch('render', TORCHRUN, '--', 'train.py')}; slurm starts any program",
        )
    chosen, flags = understood(replace(flags, framework=Framework.TORCHRUN.value), None)
    found = choose(read_program(source_directory(flags.workdir, None), list(chosen.words)))
    if found is not None and found.framework == Framework.JAX.value:
        raise UsageError(
            f"{' '.join(chosen.words[:1])} is a JAX script ({found.because}), which torchrun does not start",
            hint=f"{pylaunch('start', '--', *chosen.words)}, or pylaunch render slurm",
        )
    return chosen, flags


_subcommand(
    SLURM,
    """Print a complete script for sbatch.

    Slurm chooses nodes and devices; the plan decides how many.
    """,
    slurm_script,
)
_subcommand(TORCHRUN, "Print a script that starts torchrun on the node whose number is its argument.", torchrun_script)
