"""The program of a start, or the command line of another launcher, and the framework that fits it."""

import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pylaunch.agent.shared.script_framework import DEFAULT, LAUNCHER_VARIABLES, choose, needs_mpi
from pylaunch.agent.shared.script_imports import Names, read_program
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.model.pasted import LAUNCHERS, MODULES, Pasted, described_line, program_after, ranks_of, taken_apart
from pylaunch.model.text.argv import Argv, pylaunch, quoted
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal import console
from pylaunch.terminal.flags.start import AUTO, StartFlags, source_directory

RANK_WORDS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "PYLAUNCH_RANK"})
OWN_RANK = RANK_WORDS - {"MASTER_ADDR"}
LOOPBACK = frozenset({"localhost", "127.0.0.1"})
SPAWNING = frozenset({"mp.spawn", "torch.multiprocessing.spawn", "multiprocessing.spawn"})
COMPUTING_ALONE = frozenset({
    "torch", "torchvision", "torchaudio", "jax", "flax", "optax", "chex", "numpy", "scipy", "pandas", "sklearn", "PIL",
    "matplotlib", "tqdm", "yaml", "einops", "safetensors", "tensorboard", "wandb", "click",
})  # fmt: skip
"""Packages that join no ranks on their own, `distributed` of torch and jax apart."""

UNMISTAKABLE = ("--nproc", "--nproc-per-node", "--max-restarts", "--sync", "--dry-run", "--detach", "--spares")
"""Options of `start` that few scripts have: reported also after a script whose source is not here."""

OF_SHELL = frozenset("&|;<>$`")
SHELL_WORDS = ("source", ".", "cd", "export", "ulimit", "module")
SHELL_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")
LONGEST_SCRIPT = 64 * 1024
"""Bytes of a shell script that are searched."""

_CALL = re.compile(
    r"(?m)^[ \t]*(?:(?:exec|\w+=\S*)[ \t]+)*(?:\S+/)?"
    rf"((?:python\S*[ \t]+-m[ \t]+)?(?:{'|'.join(map(re.escape, (*LAUNCHERS, *MODULES)))}))[ \t]"
)
_SRUN = re.compile(r"(?m)^[^#\n]*\bsrun\b")
_PLACE_OF_A_NODE = re.compile(r"node.rank|machine.rank|MASTER_ADDR|GROUP_RANK|PYLAUNCH_")
"""Words of a script that gives each node its place itself."""

SHORTEST_PREFIX = len("--npro")
NUMBERS = ("nodes", "max_restarts", "port")
"""Flags of another launcher whose values are numbers here."""


@dataclass(frozen=True)
class Program:
    """A program, and the framework that starts its ranks."""

    words: Argv
    """A script or program and its arguments, or `-m MODULE` and its arguments."""

    framework: Framework
    is_unread: bool = False
    """--framework auto chose without the source, which is not on this machine."""

    alone: str = ""
    """Package with which each rank would compute alone, or launcher that each would start; "" if nothing is known."""


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
    if named == AUTO:
        _refuse_mpi(ranks_of(words), directory)
    pasted = None if named == Framework.COMMAND.value else taken_apart(words)
    if pasted is not None and pasted.launcher:
        flags = _with_options(flags, pasted)
        chosen = _chosen(
            named if named != AUTO or pasted.framework is None else pasted.framework.value, pasted.words, directory
        )
        return chosen, flags
    if program := program_after(words):
        flags = replace(flags, env=(*words[: -len(program)], *flags.env))
        words = program
    _refuse_no_program(words, directory)
    if pasted is not None and named == AUTO:
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
        return Program(words, Framework.COMMAND, alone=_called_launcher(words, directory))
    _refuse_mpi(words, directory)
    sources = read_program(directory, list(words))
    found = choose(sources)
    if found is None:
        return Program(words, Framework(DEFAULT), is_unread=not sources, alone=_alone(sources))
    if found.framework != DEFAULT:
        _report_choice(found.framework, found.because + ("" if found.path == sources[0].path else f" in {found.path}"))
    return Program(words, Framework(found.framework), alone=_alone(sources))


def _refuse_mpi(words: Argv, directory: str) -> None:
    """Raise UsageError for a script whose ranks only mpirun connects."""
    package = needs_mpi(read_program(directory, list(words))) if words else None
    if package is not None:
        raise UsageError(
            f"{_shown(words)} imports {package}, and pylaunch starts no MPI job: each rank would be alone in its world",
            hint="start it with mpirun, which connects its ranks",
        )


def with_variables(program: Program, named: str, variables: Collection[str]) -> Program:
    """Return `program` under torchrun if `variables` of the ranks ask torchrun's agent for something.

    `named` is the value of --framework; only auto chooses.
    """
    asked = [name for name in LAUNCHER_VARIABLES if name in variables]
    if named != AUTO or program.framework is not Framework(DEFAULT) or not asked:
        return program
    _report_choice(Framework.TORCHRUN.value, asked[0])
    return replace(program, framework=Framework.TORCHRUN)


def _report_choice(framework: str, because: str) -> None:
    console.say(f"note: --framework {framework}, because of {because}; name another one to overrule this")


def _with_options(flags: StartFlags, pasted: Pasted) -> StartFlags:
    """Take over the options of `pasted` that `flags` leave at their defaults, and report them."""
    used = {name: value for name, value in pasted.options.items() if getattr(flags, name) == getattr(StartFlags, name)}
    for name in NUMBERS:
        if name in used and not used[name].isdecimal():
            raise UsageError(f"{pasted.launcher} {name.replace('_', '-')} {used[name]}: expected a number")
    taken: dict[str, Any] = {name: int(value) if name in NUMBERS else value for name, value in used.items()}
    env = tuple(f"{name}={value}" for name, value in pasted.env.items())
    if pasted.launcher:
        console.say(described_line(pasted, used))
        if pasted.is_of_one_machine and flags.nodes is None:
            console.say(
                f"note: this line of {pasted.launcher} starts ranks on one machine, pylaunch on every host: "
                "--nodes 1 for one machine"
            )
    return replace(flags, **taken, env=(*env, *flags.env))


def _called_launcher(words: Argv, directory: str) -> str:
    """Return the launcher that a shell script among `words` calls as on a single machine; "" for none.

    Raises UsageError for a batch script of Slurm with an srun.
    """
    for path in (Path(directory, word) for word in words[:2] if word.endswith(SHELL_SCRIPTS)):
        if path.is_file() and os.access(path, os.R_OK):
            script = path.read_bytes()[:LONGEST_SCRIPT].decode("utf-8", "replace")
            if "\n#SBATCH " in script and _SRUN.search(script):
                raise UsageError(
                    f"{path.name} is a batch script of Slurm, and its srun would start ranks on all nodes itself",
                    hint=f"write pylaunch start -- train.py in place of its srun, then: sbatch {path.name}",
                )
            if not _PLACE_OF_A_NODE.search(script) and (called := _CALL.search(script)):
                return called[1]
    return ""


def _alone(sources: Sequence[Names]) -> str:
    """Return the package with which every rank would compute alone, because nothing in `sources` can join ranks."""
    packages = {package for source in sources for package in source.packages}
    local = {part for source in sources for part in Path(source.path).with_suffix("").parts[-3:]}
    foreign = packages - COMPUTING_ALONE - set(sys.stdlib_module_names) - local
    names = {name for source in sources for name in source.imports | source.attributes | source.words}
    if {"MASTER_ADDR", "MASTER_PORT"} <= names and names & LOOPBACK and not OWN_RANK & names:
        return next((name for name in sorted(names) if name in SPAWNING), "")
    joins = any("distributed" in name.lower() or "dist" in name.split(".") for name in names) or RANK_WORDS & names
    if foreign or joins:
        return ""
    return next((package for package in ("torch", "jax") if package in packages), "")


def report_ranks_alone(program: Program, world_size: int) -> None:
    """Warn where the source shows that ranks will not join."""
    if program.alone and world_size > 1 and program.framework is Framework.COMMAND:
        console.say(
            f"warning: {quoted(program.words[:2])} calls {program.alone}, once in each of {world_size} ranks, "
            f"and none knows the others; paste its line instead: pylaunch start -- {program.alone} …"
        )
    elif program.alone in SPAWNING and world_size > 1:
        console.say(
            f"warning: {_shown(program.words)} starts processes of its own ({program.alone}) that meet at localhost: "
            f"each of {world_size} ranks will compute alone; call its function without {program.alone}: each rank has "
            "RANK, WORLD_SIZE and MASTER_ADDR"
        )
    elif program.alone and world_size > 1:
        how = "torch.distributed" if program.alone == "torch" else "jax.distributed.initialize()"
        console.say(
            f"warning: {_shown(program.words)} uses {program.alone} and nothing that joins ranks ({how}): "
            f"each of {world_size} ranks will compute alone"
        )


def report_misplaced(
    program: Program, workdir: str | None, tree: Tree | None, options: Collection[str], verb: Argv = ("start",)
) -> None:
    """Report words after the script that look like options of `verb`, unless the source of the script has them."""
    own: set[str] = set()
    sources: list[Names] = []
    if program.framework is not Framework.COMMAND:
        sources = read_program(source_directory(workdir, tree), list(program.words))
        own = {word.lstrip("-").replace("-", "_") for source in sources for word in source.words}
    rest = program.words[2:] if program.words[0] == "-m" else program.words[1:]
    for place, word in enumerate(rest):
        flag, _, value = word.partition("=")
        option = _option(flag, options)
        if option is None or flag.lstrip("-").replace("-", "_") in own or not (sources or option in UNMISTAKABLE):
            continue
        if program.framework is Framework.COMMAND and option not in UNMISTAKABLE:
            continue
        more = [value] if value else [each for each in rest[place + 1 : place + 2] if not each.startswith("-")]
        others = [*rest[:place], *rest[place + (1 if value else 1 + len(more)) :]]
        console.say(
            f"note: {word} comes after the script and is given to it; as an option of pylaunch: "
            + pylaunch(*verb, option, *more, "--", *program.words[: len(program.words) - len(rest)], *others)
        )


def _option(flag: str, options: Collection[str]) -> str | None:
    """Return the option of `start` that `flag` is, or abbreviates without doubt."""
    typed = flag.replace("_", "-")
    if not typed.startswith("--"):
        return None
    if typed in options:
        return typed
    matches = [option for option in options if option.startswith(typed) and len(typed) >= SHORTEST_PREFIX]
    return matches[0] if len(matches) == 1 else None


def _shown(words: Argv) -> str:
    return " ".join(words[:2]) if words[0] == "-m" else words[0]
