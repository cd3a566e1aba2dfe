"""`--sync`: the working tree as the flags ask for it, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from posixpath import join, normpath
from typing import TypeVar

import click

from pylaunch.cli import console
from pylaunch.cli.flags.options import size
from pylaunch.cli.views.live import counted
from pylaunch.errors import UsageError
from pylaunch.launch.sync.tree import DEFAULT_LIMIT, Ignored, Tree, read_tree
from pylaunch.model.argv import quoted
from pylaunch.model.job import TREE, Sync
from pylaunch.model.size import shown_size

F = TypeVar("F", bound=Callable[..., object])
SHOWN = 3

_OPTIONS = (
    click.option(
        "--sync", metavar="DIR", help="Ship this directory to all nodes and start in it; ignores what .gitignore does."
    ),
    click.option(
        "--sync-exclude", multiple=True, metavar="PATTERN", help="Leave these out, as in .gitignore. Repeatable."
    ),
    click.option(
        "--sync-include",
        multiple=True,
        metavar="PATTERN",
        help="Ship these although .gitignore names them. Repeatable.",
    ),
    click.option("--sync-limit", default="2GiB", show_default=True, metavar="SIZE", help="Largest tree to ship."),
)


def options(command: F) -> F:
    """The flags that `given` understands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given(asked: Mapping[str, object]) -> Tree | None:
    """The tree that the flags in `asked` name, read; None without --sync. Raises UsageError for one not to be had."""
    excludes, includes = (_patterns(asked[name]) for name in ("sync_exclude", "sync_include"))
    limit = size("--sync-limit", str(asked["sync_limit"]))
    if asked["sync"] is None:
        if excludes or includes or limit != DEFAULT_LIMIT:
            raise UsageError("--sync-exclude, --sync-include and --sync-limit go with --sync", hint="--sync .")
        return None
    tree = read_tree(Path(str(asked["sync"])).absolute(), excludes, limit, includes)
    _report_ignored(tree.ignored)
    for path in tree.left_out:
        console.say(f"warning: {path} is neither a file nor a link and is not shipped")
    return tree


def _patterns(asked: object) -> tuple[str, ...]:
    return tuple(map(str, asked)) if isinstance(asked, Sequence) else ()


def _report_ignored(ignored: Ignored) -> None:
    if not ignored.files:
        return
    more = "" if ignored.is_complete else "more than "
    console.say(
        f"note: .gitignore leaves out {more}{counted(ignored.files, 'file')} ({shown_size(ignored.size)}), the largest "
        f"{ignored.largest} ({shown_size(ignored.largest_size)}); "
        f"{quoted(('--sync-include', ignored.largest))} ships it"
    )


def as_asked(tree: Tree, excludes: tuple[str, ...], includes: tuple[str, ...]) -> Sync:
    """`tree` as a job records it, which was read without `excludes` and with `includes`."""
    manifest = tree.manifest
    files = len(manifest.files) + len(manifest.links)
    return Sync(str(tree.directory), manifest.digest, files, manifest.size, excludes, includes)


def again(asked: Sync) -> Tree:
    """The tree of an earlier run, read as it is now. Raises UsageError for one not to be had."""
    tree = read_tree(Path(asked.directory), asked.excludes, max(DEFAULT_LIMIT, asked.size), asked.includes)
    if tree.manifest.digest != asked.tree:
        console.say(f"note: {asked.directory} has changed since that run")
    return tree


def workdir(asked: object, tree: Tree) -> str:
    """Where ranks start inside of `tree`. Raises UsageError for a --workdir outside of it."""
    inside = normpath(str(asked or "."))
    if inside.startswith(("/", "..")):
        raise UsageError(
            f"--workdir {asked}: with --sync, expected a directory in {tree.directory}", hint="--workdir src"
        )
    return TREE if inside == "." else f"{TREE}/{inside}"


def check_script(tree: Tree, workdir: str, script: str | None) -> None:
    """Raises UsageError when `script` is not in `tree`; None is a module, which may be installed on the nodes."""
    if script is None or script.startswith("/"):
        return
    path = normpath(join(workdir.removeprefix(TREE).lstrip("/"), script))
    manifest = tree.manifest
    if path in {file.path for file in manifest.files} | {link.path for link in manifest.links}:
        return
    is_there = (tree.directory / path).exists()
    raise UsageError(
        f"{path} is not among the files to ship from {tree.directory}",
        evidence=[".gitignore, .pylaunchignore or --sync-exclude leaves it out"] if is_there else [],
        hint=quoted(("--sync-include", path)) + " ships it"
        if is_there
        else "--sync names the directory that contains it",
    )


def told_not_shipped(paths: Sequence[str]) -> tuple[str, str]:
    """What is printed of modules that the script imports and that are not shipped, and what to type."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    include = quoted([word for path in paths[:SHOWN] for word in ("--sync-include", path)])
    return f"imported by the script and not shipped: {', '.join(paths[:SHOWN])}{more}", include


def described(sync: Sync) -> str:
    """A tree in one line."""
    return f"{sync.files} files, {shown_size(sync.size)}, tree {sync.tree[:12]} of {sync.directory}"
