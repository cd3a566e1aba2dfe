"""`--sync`: read the working tree that the flags name, and report on it."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from posixpath import join, normpath

from pylaunch.errors import UsageError
from pylaunch.inventory.load import source_of
from pylaunch.model.job import TREE, Sync
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import shown_size
from pylaunch.runs.sync.tree import Tree, read_tree
from pylaunch.terminal import console
from pylaunch.terminal.options import current

SHOWN_PATHS = 3
VARIABLES_OF_HOSTS = ("group_vars", "host_vars")
"""Directories beside an inventory, from which Ansible reads variables and passwords of its hosts."""


def given(directory: str, excludes: tuple[str, ...]) -> Tree:
    """Read the tree that --sync names. Raises UsageError for a tree that cannot be shipped."""
    private = private_files(source_of(current().source))
    tree = read_tree(Path(directory).absolute(), excludes, private=private)
    if tree.ignored:
        ships = quoted(("--sync-exclude", f"!{tree.ignored[0]}"))
        console.say(f"note: .gitignore leaves out {_some(tree.ignored)}; {ships} ships the first")
    _report_withheld(tree)
    for path in tree.left_out:
        console.say(f"warning: {path} is neither a file nor a link and is not shipped")
    return tree


def private_files(inventory: Path | None) -> tuple[Path, ...]:
    """Return the files and directories of an inventory, which no run ships to its nodes."""
    if inventory is None:
        return ()
    return inventory, *(inventory.parent / name for name in VARIABLES_OF_HOSTS if inventory.is_file())


def _report_withheld(tree: Tree) -> None:
    if tree.withheld:
        why = "the inventory in use, pylaunch.toml and vault files stay here"
        console.say(f"note: not shipped: {_some(tree.withheld)} ({why})")


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
    return ", ".join(paths[:SHOWN_PATHS]) + more


def as_asked(tree: Tree, excludes: tuple[str, ...]) -> Sync:
    """Return the record of `tree` for a job; it was read with these patterns."""
    manifest = tree.manifest
    files = len(manifest.files) + len(manifest.links)
    return Sync(str(tree.directory), manifest.digest, files, manifest.size, excludes)


def again(asked: Sync, inventory: Path | None) -> Tree:
    """Read the tree of an earlier run on hosts of `inventory` as it is now.

    Raises UsageError for a tree that cannot be shipped.
    """
    tree = read_tree(Path(asked.directory), asked.excludes, private=private_files(inventory))
    _report_withheld(tree)
    if tree.manifest.digest != asked.tree:
        console.say(f"note: {asked.directory} has changed since that run")
    return tree


def workdir(asked: str | None, tree: Tree) -> str:
    """Return the directory in `tree` in which ranks start. Raises UsageError for a --workdir outside of the tree."""
    inside = normpath(asked or ".")
    if inside.startswith(("/", "..")):
        raise UsageError(
            f"--workdir {asked}: with --sync, expected a directory in {tree.directory}", hint="--workdir src"
        )
    return TREE if inside == "." else f"{TREE}/{inside}"


def check_script(tree: Tree, workdir: str, script: str | None) -> None:
    """Raise UsageError when `script` is not in `tree`. None is a module, which may be installed on the nodes."""
    if script is None or script.startswith("/"):
        return
    path = normpath(join(workdir.removeprefix(TREE).lstrip("/"), script))
    manifest = tree.manifest
    if path in {file.path for file in manifest.files} | {link.path for link in manifest.links}:
        return
    if (inside := _below(Path(script), tree.directory)) in {file.path for file in manifest.files}:
        raise UsageError(
            f"{script}: with --sync, ranks start in the copy of {tree.directory}",
            hint=f"name the script as it is called there: {quoted((inside,))}",
        )
    near = difflib.get_close_matches(path, [file.path for file in manifest.files], n=1, cutoff=0.8)
    is_there = not path.startswith("../") and (tree.directory / path).exists()
    raise UsageError(
        f"{path} is not among the files to ship from {tree.directory}",
        evidence=[".gitignore, .pylaunchignore or --sync-exclude leaves it out"] if is_there else [],
        hint=quoted(("--sync-exclude", f"!{path}")) + " ships it"
        if is_there
        else f"did you mean {near[0]}?"
        if near
        else "--sync names the directory that contains it",
    )


def _below(path: Path, directory: Path) -> str:
    """Return `path`, relative to the working directory of this process, as it is called in `directory`; "" outside."""
    found, top = path.resolve(), directory.resolve()
    return found.relative_to(top).as_posix() if found.is_relative_to(top) else ""


def described(sync: Sync) -> str:
    """Return a tree in one line."""
    return f"{sync.files} files, {shown_size(sync.size)}, tree {sync.tree[:12]} of {sync.directory}"
