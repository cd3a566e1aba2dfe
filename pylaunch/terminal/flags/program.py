"""From the words of a start to its job: the program or another launcher's command line, and the framework that fits."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pylaunch.agent.shared.scripts import DEFAULT, choose, needs_mpi, read_program
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.pasted import Pasted, described_line, program_after, taken_apart
from pylaunch.model.secret import Secrets
from pylaunch.model.text.argv import Argv, pylaunch, quoted
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal import console
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.start import AUTO, OPTIONS, StartFlags, environment, source_directory

if TYPE_CHECKING:
    from pylaunch.runs.start import StartOptions

OF_SHELL = frozenset("&|;<>$`")
SHELL_WORDS = ("source", ".", "cd", "export", "ulimit", "module")


@dataclass(frozen=True)
class Program:
    """A program, and the framework that starts its ranks."""

    words: Argv
    """A script or program and its arguments, or `-m MODULE` and its arguments."""

    framework: Framework
    is_unread: bool = False
    """--framework auto chose without the source, which is not on this machine."""


@dataclass(frozen=True)
class Requested:
    """Request of the flags; nothing in it depends on the nodes."""

    flags: StartFlags
    """With the options of the command line of another launcher."""

    program: Program
    job: JobSpec
    secrets: Secrets
    tree: Tree | None

    def options(self) -> "StartOptions":
        """Return the options of the start that are no part of its job."""
        return start_options(self.flags, self.job, self.secrets, self.tree)


def requested(
    typed: StartFlags,
    ours: Mapping[str, str],
    tree_of: Callable[[str, tuple[str, ...]], Tree] = sync.given,
) -> Requested:
    """Return the job of `typed`; `ours` is the environment of pylaunch, `tree_of` reads the tree to ship.

    Raises UsageError for what cannot be started.
    """
    tree = None if typed.sync is None else tree_of(typed.sync, typed.sync_exclude)
    if tree is None and typed.sync_exclude:
        raise UsageError("--sync-exclude goes with --sync", hint="--sync .")
    try:
        chosen, flags = understood(typed, tree)
    except UsageError as error:
        if typed.sync is not None and error.hint is not None:
            ship = pylaunch("start", "--sync", typed.sync)
            error.hint = error.hint.replace("pylaunch start", ship)
        raise
    env = environment(flags.env, flags.secret, ours)
    job = flags.job(chosen.words, chosen.framework, env, tree, is_unread=chosen.is_unread)
    return Requested(flags, chosen, job, env.secrets, tree)


def start_options(flags: StartFlags, job: JobSpec, secrets: Secrets, tree: Tree | None) -> "StartOptions":
    """Return the options of a start with `flags` that are no part of its job. Raises UsageError."""
    # A dry run needs no module of a run.
    from pylaunch.runs.start import StartOptions  # noqa: PLC0415
    from pylaunch.runs.start_checks import at_start_checks  # noqa: PLC0415

    return StartOptions(
        checks=at_start_checks(skip=job.skipped_checks),
        secrets=secrets,
        tree=tree,
        waits=flags.queue,
        ends_leftovers=flags.clean,
    )


def understood(flags: StartFlags, tree: Tree | None) -> tuple[Program, StartFlags]:
    """Return the program that `flags` name, and `flags` with the options of another launcher's command line.

    Raises UsageError for a program that these flags cannot start.
    """
    words = flags.words
    if not words:
        raise UsageError("nothing to run", hint="pylaunch start -- train.py")
    if flags.module:
        words = ("-m", *words)
    if words == ("-m",):
        raise UsageError("-m: expected the name of a module", hint="pylaunch start -- -m package.module")
    named = flags.framework
    directory = source_directory(flags.workdir, tree)
    pasted = None if named == Framework.COMMAND.value else taken_apart(words)
    if pasted is not None and pasted.launcher:
        flags = _with_options(flags, pasted)
        framework = named if named != AUTO or pasted.framework is None else pasted.framework.value
        return _chosen(framework, pasted.words, directory), flags
    if program := program_after(words):
        flags = replace(flags, env=(*words[: -len(program)], *flags.env))
        words = program
    _refuse_no_program(words, directory)
    if pasted is not None and named == AUTO:
        _refuse_mpi(pasted.words, directory)
        found = choose(read_program(directory, list(pasted.words)))
        if found is None:
            return Program(words, Framework.COMMAND), flags
        flags, words = _with_options(flags, replace(pasted, env={})), pasted.words
    return _chosen(named, words, directory), flags


def _refuse_no_program(words: Argv, directory: str) -> None:
    """Raise UsageError for words that a shell, Slurm or Jupyter takes, and that no node has as a program."""
    first, here = words[0], Path(directory)
    if first in SHELL_WORDS:
        what, hint = "built into shells", pylaunch("start", "--", "bash", "-c", " ".join(words))
    elif first in ("sbatch", "salloc"):
        what, hint = "a command of Slurm", "pylaunch start --scheduler slurm --nodes 4 -- train.py; pylaunch help slurm"
    elif first.endswith(".ipynb"):
        what, hint = "a notebook", quoted(("jupyter", "nbconvert", "--to", "script", first))
    elif os.access(here / first, os.F_OK):  # exists raises for a name that is too long.
        return
    elif " " in first and "/" not in first.partition(" ")[0]:
        of_shell = pylaunch("start", "--", "bash", "-c", " ".join(words))
        line = f"pylaunch start -- {first} {quoted(words[1:])}".rstrip()
        what, hint = "one word, in quotes", of_shell if OF_SHELL & set(first) else line
    elif "." in first and os.access(here / f"{first.replace('.', '/')}.py", os.F_OK):
        what, hint = "a module", pylaunch("start", "--", "-m", *words)
    else:
        return
    raise UsageError(f"{first} is {what}, and no program", hint=hint)


def _chosen(named: str, words: Argv, directory: str) -> Program:
    is_script = words[0].endswith(".py") or words[0] == "-m"
    if named != AUTO:
        framework = Framework(named)
        if framework is not Framework.COMMAND and not is_script:
            raise UsageError(
                f"{framework.value} starts Python scripts, and {words[0]} does not end in .py",
                hint=f"pylaunch start --framework command -- {quoted(words)}",
            )
        return Program(words, framework)
    if not is_script:
        return Program(words, Framework.COMMAND)
    _refuse_mpi(words, directory)
    sources = read_program(directory, list(words))
    found = choose(sources)
    if found is None:
        return Program(words, Framework(DEFAULT), is_unread=not sources)
    if found.framework != DEFAULT:
        _report_choice(found.framework, found.because + ("" if found.path == sources[0].path else f" in {found.path}"))
    return Program(words, Framework(found.framework))


def _refuse_mpi(words: Argv, directory: str) -> None:
    """Raise UsageError for a script whose ranks only mpirun connects."""
    package = needs_mpi(read_program(directory, list(words))) if words else None
    if package is not None:
        raise UsageError(
            f"{_shown(words)} imports {package}, and pylaunch starts no MPI job: each rank would be alone in its world",
            hint="start it with mpirun, which connects its ranks",
        )


def _report_choice(framework: str, because: str) -> None:
    console.say(f"note: --framework {framework}, because of {because}; name another one to overrule this")


def _with_options(flags: StartFlags, pasted: Pasted) -> StartFlags:
    """Take over the options of `pasted` that `flags` leave at their defaults, and report them."""
    used = {name: text for name, text in pasted.options.items() if getattr(flags, name) == getattr(StartFlags, name)}
    taken: dict[str, Any] = {}
    for each in OPTIONS:
        if each.name in used:
            try:
                taken[each.name] = each.value(used[each.name])
            except ValueError as error:
                raise UsageError(f"{pasted.launcher} {each.typed} {used[each.name]}: {error}") from None
    env = tuple(f"{name}={value}" for name, value in pasted.env.items())
    if pasted.launcher:
        console.say(described_line(pasted, used))
        if "nodes" not in pasted.options and flags.nodes is None:
            console.say("note: the ranks start on every host: --nodes 1 for one machine")
    return replace(flags, **taken, env=(*env, *flags.env))


def _shown(words: Argv) -> str:
    return " ".join(words[:2]) if words[0] == "-m" else words[0]
