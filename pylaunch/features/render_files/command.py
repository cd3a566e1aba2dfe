"""`pylaunch render`: the plan of a start as files for another launcher."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from posixpath import basename
from typing import Any

import click

from pylaunch import features
from pylaunch.agent.shared.scripts import choose, read_program
from pylaunch.base.dataclass import dataclass, fields, replace
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features import judge_settings, start_file
from pylaunch.features.render_files.files import Target, render_files
from pylaunch.features.render_files.files.shell import FileSet
from pylaunch.inventory import load_cluster
from pylaunch.inventory.settings import SETTINGS, read_settings
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.secret import refuse_secrets
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.planned import plan_start
from pylaunch.store.files import new_file
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags import environment, program
from pylaunch.terminal.flags.start import StartFlags, options_of, source_directory
from pylaunch.terminal.option import CommandGroup, GroupedCommand, added

EXAMPLES = """\b
Examples:
  pylaunch render slurm -i cluster.ini --partition gpu --time 4:00:00 -- train.py --lr 3 >train.sbatch
  pylaunch render torchrun -i cluster.ini --output files -- train.py
"""

OTHER_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Programs whose command lines are accepted as those of a script."""

DECIDED_BY_PLAN = frozenset({
    "--nodes", "--ntasks", "--ntasks-per-node", "--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--job-name",
})  # fmt: skip
_SBATCH_WORD = re.compile(r"--[a-z][a-z-]*(=[^\s#'\"\\]+)?")

_OWN = (
    options.inventory,
    options.limit,
    click.option(
        "-o", "--output", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
        help="Write the files to this directory.  [default: print them]",
    ),
    click.option("--force", is_flag=True, help="With --output: replace files that exist."),
    options.as_json,
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- SCRIPT [ARGS]..."),
)  # fmt: skip


@dataclass(frozen=True)
class RenderedPlan:
    """Files for a target, and where they were written."""

    target: Target
    content: FileSet
    secrets: tuple[str, ...]
    """Names of the secrets of the job. No file contains a value."""

    directory: Path | None = None
    """None: nothing was written."""


def render_plan(cluster: Cluster, job: JobSpec, target: Target, sbatch: tuple[str, ...]) -> RenderedPlan:
    """Plan `job` as a start would, and return the files of the plan for `target`.

    Raises UsageError for a plan that the target cannot run, and for a secret on the command line or in a variable,
    because the files would contain it.
    """
    refuse_secrets(job.command, job.env)
    plan = plan_start(cluster, job, judge_settings, console.say).plan
    return RenderedPlan(target, render_files(plan, target, sbatch), job.secrets)


def write_files(rendered: RenderedPlan, directory: Path, *, replaces: bool) -> RenderedPlan:
    """Write the files to `directory`, which is made if needed, each for its user alone.

    Raises UsageError if a file exists, unless `replaces`, and if one cannot be written.
    """
    paths = [directory / file.name for file in rendered.content.files]
    existing = [path.name for path in paths if path.exists() or path.is_symlink()]
    if existing and not replaces:
        raise UsageError(
            f"{directory}: {_counted(existing)} already",
            hint="--force replaces them; --output DIR names another directory",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {directory}: cannot be made: {error.strerror}") from None
    for path, file in zip(paths, rendered.content.files, strict=True):
        _write(path, file.text.encode("utf-8", "surrogateescape"), replaces=path.name in existing)
    return RenderedPlan(rendered.target, rendered.content, rendered.secrets, directory)


def _write(path: Path, content: bytes, *, replaces: bool) -> None:
    """Write one file. One that exists is replaced at once, when the new one is complete."""
    aside = path.with_name(f".{path.name}.{os.getpid()}") if replaces else path
    with new_file(aside) as out:
        out.write(content)
    if replaces:
        try:
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise UsageError(f"{path}: cannot be replaced: {error.strerror}") from None


def _counted(names: Iterable[str]) -> str:
    shown = ", ".join(sorted(names))
    return f"{shown} exist" if "," in shown else f"{shown} exists"


class TargetGroup(CommandGroup):
    """A group whose subcommands are targets: an unknown one is reported with the known."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does. Raises UsageError for an unknown target."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            error.evidence = (f"targets: {', '.join(target.value for target in Target)}",)
            raise


@click.group(cls=TargetGroup, epilog=EXAMPLES)
def command() -> None:
    """Write the plan of a start as files for another launcher. No host is contacted.

    The files need no pylaunch on the nodes. They contain no secrets: those that are left out are listed.
    """


@dataclass(frozen=True, kw_only=True)
class RenderFlags:
    """Flags of `pylaunch render` that are no flags of `start`, and those that select hosts."""

    inventory: Path | None = None
    limit: str | None = None
    output: Path | None = None
    force: bool = False
    as_json: bool = False
    partition: str | None = None
    time: str | None = None
    sbatch_arg: tuple[str, ...] = ()

    def sbatch(self) -> tuple[str, ...]:
        """Return options of sbatch, one for each line. Raises UsageError for one that a script cannot contain."""
        named = {"partition": self.partition, "time": self.time}
        found = [f"--{name}={value}" for name, value in named.items() if value is not None]
        found += [word if word.startswith("--") else f"--{word}" for word in self.sbatch_arg]
        for option in found:
            if not _SBATCH_WORD.fullmatch(option):
                raise UsageError(f"{option}: expected one word without quotes", hint="--sbatch-arg=--mem=0")
            if option.partition("=")[0] in DECIDED_BY_PLAN:
                raise UsageError(
                    f"--sbatch-arg {option}: the plan decides it",
                    hint="--nodes, --nproc-per-node, and gpus= or devices= in the inventory",
                )
        return tuple(found)


def _subcommand(target: Target, summary: str) -> None:
    """Add the subcommand of `target`, with the options of a plan and those of the target."""

    def call(**given: Any) -> int:
        names = [each.name for each in fields(RenderFlags) if each.name in given]
        return _rendered(target, RenderFlags(**{name: given.pop(name) for name in names}), StartFlags(**given))

    verb = f"render {target.value}"
    function = added((*options_of("render", verb), *features.options(verb)))(call)
    for option in _OWN:
        function = option(function)
    settings = {"allow_interspersed_args": False}
    command.command(target.value, cls=GroupedCommand, help=summary, context_settings=settings)(function)


def _rendered(target: Target, where: RenderFlags, typed: StartFlags) -> int:
    """Render the files of one target, and show or write them."""
    if where.force and where.output is None:
        raise UsageError("--force has no effect without --output", hint="--output DIR --force")
    if read_settings(Path.cwd()).container_image is not None:
        console.say(f"note: {SETTINGS}: [container] is for pylaunch start; what render writes makes no containers")
    sbatch = where.sbatch()
    if start_file(typed.words) is not None:
        raise UsageError(
            f"{typed.words[0]}: {target.value} starts one program, not the roles of a job file",
            hint=pylaunch("start", typed.words[0]),
        )
    made = _of_program(target, where, typed, sbatch)
    if where.output is not None:
        made = write_files(made, where.output, replaces=where.force)
    if where.as_json:
        document.show(_as_data(made))
    else:
        show(made)
    return ExitCode.DONE


def _of_program(target: Target, where: RenderFlags, typed: StartFlags, sbatch: tuple[str, ...]) -> RenderedPlan:
    """Return the files of one target for a program."""
    chosen, flags = _program(target, typed)
    env = environment.given(flags.env, flags.env_file, flags.secret, os.environ)
    if target.framework is None:
        chosen = program.with_variables(chosen, flags.framework, env.plain)
    if chosen.framework.has_nodes_as_ranks:
        raise UsageError(
            f"{target.value} starts no {chosen.framework.value}", hint=pylaunch("start", "--", *chosen.words)
        )
    job = flags.job(chosen.words, chosen.framework, env, None, is_unread=chosen.is_unread)
    cluster = load_cluster(where.inventory, limit=where.limit)
    return render_plan(cluster, job, target, sbatch)


def _program(target: Target, flags: StartFlags) -> tuple[program.Program, StartFlags]:
    """Return the program under the framework of `target`. Raises UsageError for one that the target cannot start."""
    if not flags.words:
        raise UsageError("nothing to run", hint=pylaunch("render", target.value, "--", "train.py"))
    first = flags.words[0]
    is_script = flags.module or first.endswith(".py") or first == "-m" or basename(first) in OTHER_LAUNCHERS
    if target.framework is None:
        return program.understood(flags, None)
    if not is_script:
        raise UsageError(
            f"{target.value} starts Python scripts, and {first} does not end in .py",
            hint=f"{pylaunch('render', target.value, '--', 'train.py')}; slurm starts any program",
        )
    chosen, flags = program.understood(replace(flags, framework=target.framework.value), None)
    found = choose(read_program(source_directory(flags.workdir, None), list(chosen.words)))
    if found is not None and found.framework == Framework.JAX.value:
        raise UsageError(
            f"{' '.join(chosen.words[:1])} is a JAX script ({found.because}), which {target.value} does not start",
            hint=f"{pylaunch('start', '--', *chosen.words)}, or pylaunch render slurm",
        )
    return chosen, flags


_subcommand(
    Target.SLURM,
    """Write a complete script for sbatch.

    Slurm chooses nodes and devices; the plan decides how many. Nodes with different numbers of ranks become a
    heterogeneous job.
    """,
)
_subcommand(Target.TORCHRUN, "Write the torchrun command of each node, as a script.")


def show(made: RenderedPlan) -> None:
    """Print the paths of files that were written, otherwise their content; and how to use them."""
    files = made.content.files
    for number, file in enumerate(files):
        if made.directory is not None:
            console.data(str(made.directory / file.name))
            continue
        if len(files) > 1:
            console.data(f"{'' if number == 0 else chr(10)}==> {file.name} <==")
        for line in file.text.splitlines():
            console.data(line)
    if made.directory is None:
        return
    for remark in made.content.remarks:
        console.say(f"note: {remark}")
    if made.secrets:
        console.say(f"note: left out, because they are secret: {', '.join(made.secrets)}")
    console.say("\nuse: " + "\n     ".join(made.content.commands))


def _as_data(made: RenderedPlan) -> dict[str, object]:
    """Return the files as data."""
    return {
        "target": made.target.value,
        "directory": None if made.directory is None else str(made.directory),
        "files": [{"name": file.name, "content": file.text} for file in made.content.files],
        "commands": list(made.content.commands),
        "remarks": list(made.content.remarks),
        "secrets": list(made.secrets),
    }
