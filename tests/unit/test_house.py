"""Rules of the house that a machine can keep."""

import os
import re
import threading
from pathlib import Path

import pytest

from tests.conftest import EndlessError, limited

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)")
SKIPPED = {".venv", ".git", "build", "dist", ".pylaunch", ".pytest_cache"}


def files(pattern: str) -> list[Path]:
    return [path for path in ROOT.rglob(pattern) if not SKIPPED & set(path.relative_to(ROOT).parts)]


def test_links_between_pages_lead_somewhere() -> None:
    links = [(page, link) for page in files("*.md") for link in LINK.findall(page.read_text()) if "://" not in link]
    assert [(page, link) for page, link in links if not (page.parent / link).exists()] == []


def test_every_promise_names_tests_that_are_there() -> None:
    pages = (ROOT / "SECURITY.md").read_text() + (ROOT / "docs/reference/faults.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", pages)
    assert len(named) > 50
    assert [(file, name) for file, name in named if f"def {name}(" not in (ROOT / file).read_text()] == []


def test_programs_beside_the_package_import_what_is_there() -> None:
    for path in [*(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for module, names in re.findall(r"from (pylaunch[\w.]*) import \(?([\w,\s]+)", path.read_text()):
            at = ROOT / module.replace(".", "/")
            text = (at / "__init__.py" if at.is_dir() else at.with_suffix(".py")).read_text()
            there = {*re.findall(r"\w+", text), *(each.stem for each in at.glob("*") if each.stem != "__pycache__")}
            assert {each.split()[0] for each in names.split(",") if each.strip()} - there == set(), path


COMMANDS = "chmod|chown|df|ls|rm|mkdir|findmnt|ibstat|grep|ip link set|ssh-keygen|--sync-exclude"


@pytest.mark.parametrize(
    ("written", "may_be_in"),
    [
        # A place in the checkout: an installation has no such files, and `pylaunch help TOPIC` prints them.
        (r"""^(?!.*https://).*[^/\w](?:docs|examples|inventory)/[\w/-]+\.\w+""", "-"),
        # A command of ssh outside of the transport.
        (r"""[(\[]\s*"ssh",\s*(?:\*|"-)|"-o", "[A-Z]|ControlPath=""", "pylaunch/transport"),
        # A command to copy with a path or a name that is not quoted.
        (rf"""f["'].*(?<![}}\w] )(?<!\w)(?:{COMMANDS})(?: [-+$\w]+)* ["'$\w/]*{{(?!quoted|shlex|[A-Z]+}})""", "-"),
    ],
)
def test_no_module_contains(written: str, may_be_in: str) -> None:
    files = [path for path in (ROOT / "pylaunch").rglob("*.py") if not path.is_relative_to(ROOT / may_be_in)]
    found = re.compile(written, re.MULTILINE)
    assert [str(path.relative_to(ROOT)) for path in files if found.search(path.read_text())] == []


OF_ROOT_AND_KERNEL = {
    "containers.py",
    "shared/cgroups.py", "shared/sockets/interfaces.py", "shared/installed.py", "shared/sockets/ports.py",
    "shared/leases.py", "shared/processes.py", "shared/text.py",
    "evidence/kernel_messages.py", "evidence/node_facts.py",
}  # fmt: skip
"""Modules of the agent that read files which no rank can write."""
BESIDE_THE_ARCHIVE = {"__main__.py", "compiled.py"}
IN_THE_RANK = {"in_rank/answers.py", "in_rank/sitecustomize.py", "in_rank/questions.py"}
"""Modules that run in the rank itself, which needs no protection from its own files."""
PLAIN_OPEN = re.compile(r"(?<![\w.])open\((?!rank_files\.)|\bos\.open\((?!os\.devnull|.*O_DIRECTORY)")


def test_files_that_ranks_can_write_are_opened_through_one_door() -> None:
    agent, on_nodes = ROOT / "pylaunch/agent", ("agent", "base", "protocol")
    files = [path for room in on_nodes for path in (ROOT / "pylaunch" / room).rglob("*.py")]
    modules = {os.path.relpath(path, agent): path.read_text() for path in files}
    piped = {name for name in modules if name.startswith(("probe/", "piped/"))}  # These have deadlines.
    others = OF_ROOT_AND_KERNEL | BESIDE_THE_ARCHIVE | IN_THE_RANK | piped | {"shared/rank_files.py"}
    assert [name for name, text in modules.items() if name not in others and PLAIN_OPEN.search(text)] == []


def test_a_test_that_waits_for_ever_fails() -> None:
    with pytest.raises(EndlessError, match="no end after"), limited("a wait", 0.05):
        threading.Event().wait()
