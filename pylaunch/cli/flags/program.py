"""The program of a start, another launcher's line among them, and the framework that fits it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pylaunch.agent.shared.script_framework import choose, needs_mpi
from pylaunch.agent.shared.script_imports import Names, read_program
from pylaunch.cli import console
from pylaunch.errors import UsageError
from pylaunch.launch.sync.tree import Tree
from pylaunch.model.argv import Argv, pylaunch, quoted
from pylaunch.model.job import Framework
from pylaunch.model.pasted import Pasted, described, taken_apart

AUTO = "auto"
RANK_WORDS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "PYLAUNCH_RANK"})
COMPUTING_ALONE = frozenset({
    "torch", "torchvision", "torchaudio", "jax", "flax", "optax", "chex", "numpy", "scipy", "pandas", "sklearn", "PIL",
    "matplotlib", "tqdm", "yaml", "einops", "safetensors", "tensorboard", "wandb", "click",
})  # fmt: skip
"""Packages that join no ranks on their own, `distributed` of torch and jax apart."""

UNMISTAKABLE = ("--nproc", "--nproc-per-node", "--max-restarts", "--sync", "--dry-run", "--detach", "--spares")
"""Options of `start` that few scripts have: reported also after a script whose source is not here."""

SHORTEST_PREFIX = len("--npro")
DEFAULTS: Mapping[str, object] = {
    "nproc_per_node": "auto",
    "nodes": None,
    "max_restarts": 0,
    "port": None,
    "python": None,
}
NUMBERS = ("nodes", "max_restarts", "port")


@dataclass(frozen=True)
class Program:
    """What to start, and how."""

    words: Argv
    """A script or program and its arguments, or `-m MODULE` and its arguments."""

    framework: Framework
    is_unread: bool = False
    """auto chose without the source, which is not on this machine."""

    alone: str = ""
    """The package with which each rank would compute alone, as far as the source shows; "" if nothing is known."""


def understood(asked: Mapping[str, object], tree: Tree | None) -> tuple[Program, dict[str, object]]:
    """The program that `asked` names, and `asked` with what another launcher's line adds to it.

    Raises UsageError for a program that cannot be started as asked.
    """
    words = tuple(map(str, _sequence(asked["words"])))
    if not words:
        raise UsageError("nothing to run", hint="pylaunch start -- train.py")
    if asked["module"]:
        words = ("-m", *words)
    if words == ("-m",):
        raise UsageError("-m: expected the name of a module", hint="pylaunch start -- -m package.module")
    named = str(asked["framework"])
    directory = _directory(asked["workdir"], tree)
    pasted = None if named == Framework.COMMAND.value else taken_apart(words)
    if pasted is not None and pasted.launcher:
        asked = _with_options(asked, pasted)
        chosen = _chosen(
            named if named != AUTO or pasted.framework is None else pasted.framework.value, pasted.words, directory
        )
        return chosen, dict(asked)
    if pasted is not None and named == AUTO:
        found = choose(read_program(directory, list(pasted.words)))
        if found is None:
            return Program(words, Framework.COMMAND), dict(asked)
        asked, words = _with_options(asked, pasted), pasted.words
    return _chosen(named, words, directory), dict(asked)


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
    sources = read_program(directory, list(words))
    package = needs_mpi(sources)
    if package is not None:
        raise UsageError(
            f"{_shown(words)} imports {package}, and pylaunch starts no MPI job: each rank would be alone in its world",
            hint=f"{pylaunch('start', '--framework', 'torchrun', '--', *words)} starts it all the same",
        )
    found = choose(sources)
    if found is None:
        return Program(words, Framework.TORCHRUN, is_unread=not sources, alone=_alone(sources))
    where = "" if found.path == sources[0].path else f" in {found.path}"
    console.say(
        f"note: --framework {found.framework}, because of {found.because}{where}; name another one to overrule this"
    )
    return Program(words, Framework(found.framework), alone=_alone(sources))


def _directory(workdir: object, tree: Tree | None) -> str:
    """Where the program's words are looked up on this machine."""
    return str(Path.cwd() / str(workdir or "") if tree is None else tree.directory / str(workdir or ""))


def _with_options(asked: Mapping[str, object], pasted: Pasted) -> dict[str, object]:
    """`asked` with what `pasted` asks for where nothing else was typed, which is reported."""
    used = {name: value for name, value in pasted.options.items() if asked[name] == DEFAULTS[name]}
    for name in NUMBERS:
        if name in used and not used[name].isdecimal():
            raise UsageError(f"{pasted.launcher} {name.replace('_', '-')} {used[name]}: expected a number")
    numbers = {name: int(value) if name in NUMBERS else value for name, value in used.items()}
    env = tuple(f"{name}={value}" for name, value in pasted.env.items())
    if pasted.launcher:
        console.say(described(pasted, used))
    return {**asked, **numbers, "env": (*env, *_sequence(asked["env"]))}


def _alone(sources: Sequence[Names]) -> str:
    """The package with which every rank would compute alone, because nothing in `sources` can join ranks."""
    packages = {package for source in sources for package in source.packages}
    local = {part for source in sources for part in Path(source.path).with_suffix("").parts[-3:]}
    foreign = packages - COMPUTING_ALONE - set(sys.stdlib_module_names) - local
    names = {name for source in sources for name in source.imports | source.attributes | source.words}
    joins = any("distributed" in name.lower() or "dist" in name.split(".") for name in names) or RANK_WORDS & names
    if foreign or joins:
        return ""
    return next((package for package in ("torch", "jax") if package in packages), "")


def report_ranks_alone(program: Program, world_size: int) -> None:
    """Say so where the source shows that ranks will not join."""
    if program.alone and world_size > 1:
        how = "torch.distributed" if program.alone == "torch" else "jax.distributed.initialize()"
        console.say(
            f"warning: {_shown(program.words)} uses {program.alone} and nothing that joins ranks ({how}): "
            f"each of {world_size} ranks will compute alone"
        )


def report_misplaced(
    program: Program, asked: Mapping[str, object], tree: Tree | None, options: Collection[str]
) -> None:
    """Say which words after the script look like options of `start`, unless the script's source knows them."""
    own: set[str] = set()
    sources: list[Names] = []
    if program.framework is not Framework.COMMAND:
        sources = read_program(_directory(asked["workdir"], tree), list(program.words))
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
        others = [each for each in rest if each != word and each not in more]
        console.say(
            f"note: {word} comes after the script and is given to it; as an option of pylaunch: "
            + pylaunch("start", option, *more, "--", *program.words[: len(program.words) - len(rest)], *others)
        )


def _option(flag: str, options: Collection[str]) -> str | None:
    """The option of `start` that `flag` is, or begins unmistakably."""
    typed = flag.replace("_", "-")
    if not typed.startswith("--"):
        return None
    if typed in options:
        return typed
    matches = [option for option in options if option.startswith(typed) and len(typed) >= SHORTEST_PREFIX]
    return matches[0] if len(matches) == 1 else None


def _shown(words: Argv) -> str:
    return " ".join(words[:2]) if words[0] == "-m" else words[0]


def _sequence(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()
