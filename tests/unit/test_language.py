"""The check of the project's language finds what it is for, and nothing in plain sentences."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "check-language"), run_name="check_language")
judged: Callable[[Path], Iterator[str]] = SCRIPT["judged"]
shared_class_names: Callable[[list[Path]], Iterator[str]] = SCRIPT["shared_class_names"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("page.md", "The node is " + "to" + "ld the port.\n", "page.md:1"),
        ("page.yml", "# the run go" + "es on\n", "page.yml:1"),
        ("module.py", "x = 1\n# connects an" + "ew\n", "module.py:2"),
        ("module.py", "def " + "t" + "ell() -> None: ...\n", "module.py:1: name"),
        ("module.py", 'def ports() -> None:\n    """Wh' + 'at is open."""\n', "begins like a riddle"),
    ],
)
def test_an_idiom_is_reported_with_its_place(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    (found,) = judged(file)
    assert complaint in found


def test_plain_sentences_are_not_reported(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('def retold() -> None:\n    """Return the ports that the run holds."""\n')
    page = tmp_path / "page.md"
    page.write_text("The agent sends the port; the run continues on its own.\n")
    assert [*judged(module), *judged(page)] == []


def test_two_classes_of_one_name_are_reported(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    files = [Path("pylaunch", name) for name in ("a.py", "b.py")]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("class Place: ...\n")
    assert list(shared_class_names(files)) == ["class Place has 2 meanings: pylaunch/a.py:1, pylaunch/b.py:1"]
