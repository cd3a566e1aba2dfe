"""Names that a Python script uses, parsed from its source without running it, and the framework that they require.

Bounded; also used by the controller.
"""

from __future__ import annotations

import ast
import os
from typing import Any, Iterator

from pylaunch.agent.shared import rank_files
from pylaunch.base.dataclass import dataclass, field

LARGEST = 1 << 20
"""Bytes of the largest source file that is read."""

MOST_FILES = 40
LONGEST_WORD = 64
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception")


@dataclass
class Names:
    """Names in one source file."""

    path: str
    imports: set[str] = field(default_factory=set)
    """Unconditionally imported dotted names: `torch`, `accelerate.Accelerator`; relative ones begin with a dot."""

    attributes: set[str] = field(default_factory=set)
    """Dotted names in use, such as `jax.distributed.initialize`; also names imported under a condition."""

    words: set[str] = field(default_factory=set)
    """Short string constants and identifiers."""

    @property
    def packages(self) -> set[str]:
        """Unconditionally imported top-level packages."""
        return {name.partition(".")[0] for name in self.imports if not name.startswith(".")}


def names_of(path: str, source: str) -> Names | None:
    """Return the names in `source`, the content of `path`; None for source that is not Python or too deeply nested."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = Names(path)
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, is_optional = waiting.pop()
        is_optional = is_optional or _is_condition(node)
        waiting += [(child, is_optional) for child in ast.iter_child_nodes(node)]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            dotted = set(_imported(node))
            found.attributes |= dotted
            if not is_optional:
                found.imports |= dotted
        elif isinstance(node, ast.Attribute):
            found.attributes.add(_dotted(node))
        elif isinstance(node, ast.Name):
            found.words.add(node.id)
        elif isinstance(node, ast.arg):
            found.words.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= LONGEST_WORD:
            found.words.add(node.value)
    return found


def _is_condition(node: ast.AST) -> bool:
    """Return True for statements whose imports may not happen: `try … except ImportError`, and `if`."""
    if isinstance(node, ast.Try):
        return any(map(_catches_import, node.handlers))
    return isinstance(node, ast.If) and not _is_main(node.test)


def _catches_import(handler: ast.ExceptHandler) -> bool:
    caught = [handler.type] if not isinstance(handler.type, ast.Tuple) else list(handler.type.elts)
    return any(each is None or (isinstance(each, ast.Name) and each.id in IMPORT_ERRORS) for each in caught)


def _is_main(test: ast.AST) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _imported(node: Any) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
        return
    base = "." * node.level + (node.module or "")
    yield base
    for alias in node.names:
        yield base + ("" if base.endswith(".") else ".") + alias.name


def _dotted(node: ast.AST) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(parts))


def read_program(directory: str, words: list[str]) -> list[Names]:
    """Return the names of the program `words` (SCRIPT … or -m MODULE …) in `directory` and of its local modules.

    The program itself is first; [] for a program that cannot be read.
    """
    is_module = words[0] == "-m"
    root = directory if is_module else os.path.dirname(os.path.join(directory, words[0]))
    # A module that is installed elsewhere has no file here.
    waiting = _files(root, words[1], "__main__.py")[:1] if is_module else [os.path.join(directory, words[0])]
    found: dict[str, Names] = {}
    while waiting and len(found) < MOST_FILES:
        path = waiting.pop(0)
        names = _names_in(path) if path not in found else None
        if names is not None:
            found[path] = names
            waiting += [each for name in sorted(names.imports) for each in _local_files(root, path, name)]
    return list(found.values())


def _names_in(path: str) -> Names | None:
    try:
        if not os.path.isfile(path) or os.stat(path).st_size > LARGEST:
            return None
        return names_of(path, rank_files.read(path, LARGEST, follow=True).decode("utf-8", "replace"))
    except OSError:
        return None


def _local_files(root: str, importer: str, name: str) -> list[str]:
    stripped = name.lstrip(".")
    level = len(name) - len(stripped)
    for _ in range(level):
        importer = root = os.path.dirname(importer)
    if level and not stripped:
        return []
    return [path for dotted in (stripped, stripped.rpartition(".")[0]) if dotted for path in _files(root, dotted)]


def _files(root: str, dotted: str, of_package: str = "__init__.py") -> list[str]:
    place = os.path.join(root, *dotted.split("."))
    return [path for path in (place + ".py", os.path.join(place, of_package)) if os.path.isfile(path)]


DEFAULT = "direct"
"""Framework of a Python script that requires no other one."""

ACCELERATE = (
    "accelerate.Accelerator", "accelerate.PartialState", "accelerate.state.AcceleratorState", "transformers.Trainer",
    "transformers.Seq2SeqTrainer", "transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "trl",
)  # fmt: skip
"""Names that use accelerate's state. On CPUs that forms a separate world per node without accelerate's variables."""

MPI = ("mpi4py", "horovod")


@dataclass(frozen=True)
class FrameworkChoice:
    """Framework, as an argument of `--framework`, and the name in the source that requires it."""

    framework: str
    because: str
    path: str
    """File that contains the name."""


def choose(sources: list[Names]) -> FrameworkChoice | None:
    """Return the framework that a program with the files `sources`, main file first, requires; None if DEFAULT fits.

    The first file that requires another framework decides.
    """
    packages = {package for source in sources for package in source.packages}
    for source in sources:
        for name in ACCELERATE:
            is_used = name in source.attributes and name.partition(".")[0] in source.packages
            if name in source.imports or is_used:
                return FrameworkChoice("accelerate", name, source.path)
        if "deepspeed" in source.packages:
            takes_rank = any(
                word.lstrip("-").replace("-", "_") == "local_rank" for each in sources for word in each.words
            )
            return FrameworkChoice("deepspeed" if takes_rank else DEFAULT, "deepspeed", source.path)
        if "jax" in source.packages:
            joins = sorted(name for name in source.attributes if name.startswith("jax.distributed"))
            if joins or "torch" not in packages:
                return FrameworkChoice("jax", [*joins, "jax"][0], source.path)
    return None


def needs_mpi(sources: list[Names]) -> str | None:
    """Return the package in the program that requires a start by an MPI launcher; None without one."""
    return next((name for name in MPI if sources and name in sources[0].packages), None)
