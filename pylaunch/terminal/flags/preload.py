"""--preload: the imports that nodes do once for all of their ranks, before the release.

`auto` takes the imports with which the script begins, in their order, up to the first statement that could change what
a later import does: an assignment to os.environ, a call, a package that is not in PACKAGES, a module of the script's
own directory.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection
from pathlib import Path

from pylaunch.agent.in_rank.sitecustomize import PACKAGES
from pylaunch.agent.shared.script_imports import read_program
from pylaunch.errors import UsageError
from pylaunch.model.job import Framework
from pylaunch.model.text.argv import Argv, pylaunch
from pylaunch.terminal import console

AUTO = "auto"
NONE = "none"
MOST_IMPORTS = 200
OWN_RANKS = frozenset({Framework.DIRECT, Framework.JAX, Framework.ACCELERATE, Framework.DEEPSPEED})
"""Frameworks whose ranks the agent starts without a launcher between them; only such ranks can be forked."""


def chosen(given: str, framework: Framework, words: Argv, directory: str) -> tuple[str, ...]:
    """Return the imports of --preload `given` for the program `words`, whose source may be in `directory`.

    Raises UsageError for words that are no modules, and for ranks that a launcher starts.
    """
    if given == NONE:
        return ()
    if given == AUTO:
        return _automatic(words, directory) if framework in OWN_RANKS else ()
    modules = tuple(dict.fromkeys(each.strip() for each in given.split(",")))
    for module in modules:
        if not all(map(str.isidentifier, module.split("."))):
            raise UsageError(
                f"--preload {given}: {module!r} is no name of a module", hint="--preload torch,torch.distributed"
            )
    if framework not in OWN_RANKS:
        raise UsageError(
            f"--preload {given}: pylaunch does not start the ranks of --framework {framework.value} itself",
            hint=pylaunch("start", "--framework", "direct", "--preload", given, "--", *words),
        )
    return modules


def _automatic(words: Argv, directory: str) -> tuple[str, ...]:
    sources = read_program(directory, list(words))
    if not sources:
        console.say("note: --preload auto: the source of the program is not on this machine, so nothing is preloaded")
        return ()
    path = Path(sources[0].path)
    root = Path(directory) if words[0] == "-m" else path.parent
    local = {each.name.partition(".")[0] for each in root.iterdir()}
    found = leading_imports(path.read_text(encoding="utf-8", errors="replace"), local)[:MOST_IMPORTS]
    if not found and PACKAGES & sources[0].packages:
        console.say(f"note: --preload auto: {path.name} begins with more than imports, so nothing is preloaded")
    return found


def leading_imports(source: str, local: Collection[str]) -> tuple[str, ...]:
    """Return the imports of PACKAGES with which `source`, a Python script, begins; `local` are modules beside it."""
    found: dict[str, None] = {}
    for statement in ast.parse(source).body:
        imports = _imports_of(statement)
        if imports is None:
            break
        for entry in imports:
            package = entry.partition(":")[0].partition(".")[0]
            if package in local or package not in PACKAGES | sys.stdlib_module_names:
                return tuple(found)
            if package in PACKAGES:
                found[entry] = None
    return tuple(found)


def _imports_of(statement: ast.stmt) -> list[str] | None:
    """Return the imports of `statement`, [] for one without any effect on imports, None for all others."""
    match statement:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return [module if alias.name == "*" else f"{module}:{alias.name}" for alias in names]
        case ast.Expr(ast.Constant()) | ast.Assign([ast.Name()], value=ast.Constant()):
            return []
        case ast.If(ast.Name("TYPE_CHECKING"), orelse=[]):
            return []
    return None
