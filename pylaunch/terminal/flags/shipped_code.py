"""`--sync`: modules that the script imports from its directory and that are not among the files to ship."""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from pylaunch.model.job import TREE
from pylaunch.runs.sync.tree import Tree

MOST_MODULES = 2000
LARGEST_MODULE = 1 << 20


def modules_not_shipped(tree: Tree, workdir: str, script: str) -> tuple[str, ...]:
    """Files below the directory of `tree` that `script` imports, directly or through others, and that nodes would lack.

    Static: imports are read and not run. A module that is nowhere below the directory is left to the environment.
    """
    start = PurePosixPath(workdir.removeprefix(TREE).lstrip("/"))
    path = start / script
    if script.startswith("/") or path.suffix != ".py":
        return ()
    shipped = {file.path for file in tree.manifest.files} | {link.path for link in tree.manifest.links}
    roots = dict.fromkeys((path.parent, start))
    waiting, seen, missing = [_normal(path)], set[str](), dict[str, None]()
    while waiting and len(seen) < MOST_MODULES:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for candidate in _imported(tree, module, tuple(roots)):
            if candidate in shipped:
                waiting.append(candidate)
            elif (tree.directory / candidate).is_file():
                missing[candidate] = None
    return tuple(sorted(missing))


def _imported(tree: Tree, module: str, roots: tuple[PurePosixPath, ...]) -> Iterator[str]:
    """The files that the imports of `module` may mean."""
    file = tree.directory / module
    try:
        if file.stat().st_size > LARGEST_MODULE:
            return
        parsed = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return  # Which Python the nodes run is not ours to know here.
    package = PurePosixPath(module).parent
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(roots, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            above = (package, *package.parents)
            if node.level > len(above):
                continue
            places = roots if not node.level else (above[node.level - 1],)
            yield from _files(places, base)
            for alias in node.names:
                yield from _files(places, [*base, alias.name])


def _files(places: tuple[PurePosixPath, ...], words: list[str]) -> Iterator[str]:
    for place in places:
        for count in range(1, len(words) + 1):
            stem = place.joinpath(*words[:count])
            yield _normal(stem.with_name(f"{stem.name}.py"))
            yield _normal(stem / "__init__.py")


def _normal(path: PurePosixPath) -> str:
    return str(path).removeprefix("./")
