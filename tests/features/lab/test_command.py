"""`python -m lab` says to which lab and which node it did something, and leads to --name."""

from types import SimpleNamespace

import pytest

from lab import lab as labs
from lab import spec
from lab.__main__ import NAME, command
from lab.node_faults import faults
from lab.ssh import login
from pylaunch.cli import main
from pylaunch.errors import ExitCode
from pylaunch.model.cluster import Host

Captured = pytest.CaptureFixture[str]
NOTE = "note: other labs are up: perf; --name chooses one"


def run(*words: str) -> int:
    return main.run(list(words), command=command, name=NAME)


@pytest.fixture(autouse=True)
def _labs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two labs, to which nothing happens."""
    nodes = dict.fromkeys(("n1", "n2", "n3"))
    monkeypatch.setattr(spec, "names", lambda: ("lab", "perf"))
    monkeypatch.setattr(spec, "load", lambda name: SimpleNamespace(nodes=tuple(nodes)))
    monkeypatch.setattr(labs, "down", lambda name: None)
    monkeypatch.setattr(labs.Lab, "load", lambda name: nodes)
    for change in ("inject", "undo"):
        monkeypatch.setattr(faults.Cut, change, lambda fault, node: None)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("fault cut n2", "lab lab, node n2: cut"),
        ("fault cut n2 --undo", "lab lab, node n2: cut undone"),
        ("down", "lab lab is gone: n[1-3]"),
    ],
)
def test_what_was_done_names_the_lab_and_the_node_and_other_labs(line: str, printed: str, capsys: Captured) -> None:
    assert run(*line.split()) == ExitCode.DONE
    assert capsys.readouterr().err.splitlines() == [printed, NOTE]


def test_a_login_gives_its_words_to_the_shell_as_ssh_does() -> None:
    words = login(Host("n1", "10.0.0.1"), None, ("cd /tmp;", "ls *.log"))
    assert words[-2:] == ("10.0.0.1", "cd /tmp; ls *.log")
    assert login(Host("n1", "10.0.0.1"), None, ())[-1] == "10.0.0.1"
