"""Every command of README.md, of the guides and of a hint is one that pylaunch accepts; references have their data."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

import click
import pytest

from pylaunch import features, runtime
from pylaunch.checks.suite import CHECKS
from pylaunch.cli.main import VERBS
from pylaunch.features.pages import reference
from pylaunch.store.content import signatures
from pylaunch.verdict.causes.cause_kinds import KINDS
from tests.documents import (
    PAGES,
    ROOT,
    DocumentedCommand,
    commands_in,
    documented_commands,
    must_be_accepted,
    python_in,
)

REFERENCE = {path.name: reference.filled(path.read_text()) for path in sorted((ROOT / "docs/reference").glob("*.md"))}
UNKNOWN = "\0"
"""Stands for a value that only a run of the code knows."""

FLAG = re.compile(r"(?<=\s)--[a-z][\w-]*")


@pytest.mark.parametrize("command", documented_commands(), ids=str)
def test_a_command_of_the_documentation_is_accepted(command: DocumentedCommand) -> None:
    must_be_accepted(command.words)


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings of an expression, with UNKNOWN for each part that is computed."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else UNKNOWN for part in node.values)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    else:
        for below in ast.iter_child_nodes(node):
            yield from texts(below)


@pytest.fixture(scope="module")
def sources() -> dict[Path, ast.Module]:
    """All modules of the product. No collection reads them: each process of a test run collects all tests."""
    return {path: ast.parse(path.read_text()) for path in sorted((ROOT / "pylaunch").rglob("*.py"))}


def hints(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each hint of a module that has a command."""
    for call in ast.walk(tree):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg in ("hint", "fix"):
                yield from ((keyword.value.lineno, text) for text in texts(keyword.value) if any(commands_in(text)))


def test_commands_in_hints_are_accepted(sources: dict[Path, ast.Module]) -> None:
    found = [(f"{path}:{line}", text) for path, tree in sources.items() for line, text in hints(tree)]
    assert len(found) > 30
    for place, hint in found:
        for words in commands_in(hint):
            line = shlex.join(words).replace("'", "")
            forms = itertools.product(("", "2"), repeat=line.count(UNKNOWN))
            assert any(is_accepted(filled(line, form)) for form in forms), place


def filled(line: str, values: Iterable[str]) -> str:
    """Return a command line with these values for what is unknown."""
    parts = line.split(UNKNOWN)
    return "".join(itertools.chain.from_iterable(zip(parts, (*values, ""), strict=True)))


def is_accepted(line: str) -> bool:
    """Return whether pylaunch parses a command line."""
    try:
        must_be_accepted(line.split())
    except AssertionError:
        return False
    return True


def test_every_flag_of_a_command_in_any_message_is_one_of_its_verb(sources: dict[Path, ast.Module]) -> None:
    found = [(path, verb, flag) for path, tree in sources.items() for verb, flag in flags_in(tree)]
    assert len(found) > 30
    wrong = [(str(path), verb, flag) for path, verb, flag in found if verb in VERBS and flag not in flags_of(verb)]
    assert wrong == []


def flags_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield verb and flag of each command line in a message, and of each call that composes one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "pylaunch":
            verb, *given = [str(each.value) for each in node.args if isinstance(each, ast.Constant)] or [""]
            yield from ((verb, word) for word in given if FLAG.fullmatch(f" {word}", 1))
        elif isinstance(node, ast.JoinedStr | ast.Constant):
            for text in texts(node):
                for words in commands_in(re.sub("['\"]", "", text)):
                    yield from ((words[0], flag) for flag in FLAG.findall(re.split(" (?:--|-m) ", " ".join(words))[0]))


def flags_of(verb: str) -> set[str]:
    """Return the flags of a verb and of the verbs below it."""
    command = features.imported(VERBS[verb].module).command
    below = command.commands.values() if isinstance(command, click.Group) else ()
    options = [each for found in (command, *below) for each in found.params if isinstance(each, click.Option)]
    return {"--help", *(flag for option in options for flag in (*option.opts, *option.secondary_opts))}


def explanations() -> Iterator[str]:
    """Yield the hints of all kinds of causes, and the checks and repairs of all classes."""
    yield from (kind.hint.format(host="n1", rank=0, device="eth0", job="12") for kind in KINDS.values())
    for each in signatures().causes.values():
        yield from (each.check, *each.fix)


@pytest.mark.parametrize("text", sorted({text for text in explanations() if any(commands_in(text))}))
def test_a_command_in_an_explanation_is_accepted(text: str) -> None:
    for words in commands_in(text):
        must_be_accepted(words)


@pytest.mark.parametrize("page", [path for path in (*PAGES, ROOT / "docs/reference/runtime.md") if python_in(path)])
def test_python_of_a_page_compiles(page: Path) -> None:
    for block in python_in(page):
        compile(block, page.name, "exec")


def test_the_loop_of_the_library_calls_what_it_has() -> None:
    (source,) = python_in(ROOT / "docs/reference/runtime.md")
    library = mock.create_autospec(runtime)
    script = source.replace("import torch\nfrom pylaunch import runtime\n", "")
    own = {name: mock.Mock() for name in ("train", "save")}
    exec(script, {"runtime": library, "batches": [1, 2], **own})
    assert library.step.call_args == mock.call(1, total=2)


def test_pages_of_the_reference_have_the_entries_of_the_data() -> None:
    assert [name for name, text in REFERENCE.items() if "<!-- data" in text] == []
    for each in signatures().causes.values():
        assert f"### {each.id}\n" in REFERENCE[f"errors-{each.page}.md"]
        assert f"errors-{each.page}.md#{each.id}" in REFERENCE["causes.md"]
    assert all(f"| `{check.id}` |" in REFERENCE["checks.md"] for check in CHECKS)
    assert {f"role-{path.name}.md" for path in (ROOT / "roles").iterdir()} < REFERENCE.keys()
