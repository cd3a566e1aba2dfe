"""Environment of a template, and the conditions that need no process."""

from pathlib import Path

import pytest

from pylaunch.agent.in_rank import sitecustomize
from pylaunch.agent.probe.readers.hosts import occupants
from pylaunch.agent.run.ranks.template import MOST_RANKS, RankFork, shared_environment, unmet_condition
from tests.agent.controller import task

PYTHON = "/usr/bin/python3"


def forks(*environments: dict[str, str]) -> list[RankFork]:
    return [RankFork(env, ("out", "err")) for env in environments]


def test_a_template_has_the_variables_that_its_ranks_have_in_common() -> None:
    ranks = forks(
        {"RANK": "0", "OMP_NUM_THREADS": "1", "ADDRESS": "tcp://n1:@port@", "ONLY": "x", "EMPTY": ""},
        {"RANK": "1", "OMP_NUM_THREADS": "1", "ADDRESS": "tcp://n1:@port@", "EMPTY": ""},
    )
    assert shared_environment(ranks) == {"OMP_NUM_THREADS": "1", "EMPTY": ""}
    assert shared_environment(ranks[:1]) == {"RANK": "0", "OMP_NUM_THREADS": "1", "ONLY": "x", "EMPTY": ""}


def test_a_variable_that_one_rank_lacks_counts_as_different(tmp_path: Path) -> None:
    words = [PYTHON, "-u", "train.py"]
    reason = unmet_condition(task(tmp_path, words, words), forks({}, {"OMP_NUM_THREADS": "1"}))
    assert reason == "OMP_NUM_THREADS differs between ranks and is read when a process starts"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([PYTHON, "-u", "train.py"], ""),
        ([PYTHON, "-u", "-m", "train"], ""),
        ([PYTHON, "train.py", "-u"], "options of the interpreter other than -u and -m"),
        ([PYTHON, "-u", "-I"], "options of the interpreter other than -u and -m"),
        ([PYTHON, "-u", "-c", "import train"], "options of the interpreter other than -u and -m"),
        ([PYTHON, "-u"], "options of the interpreter other than -u and -m"),
        ([PYTHON, "-u", "train.py", "--store=@port@"], "the command line contains the rendezvous port"),
        (["/nowhere/python", "-u", "train.py"], "is no interpreter in machine code"),
    ],
)
def test_a_command_line_that_may_not_be_held_before_its_script(tmp_path: Path, words: list[str], expected: str) -> None:
    reason = unmet_condition(task(tmp_path, words, preload=["json"]), forks({"PATH": "/usr/bin"}))
    assert expected in reason
    assert bool(expected) == bool(reason)


@pytest.mark.parametrize("shadow", ["json.py", "json/__init__.py", "json.cpython-311-x86_64-linux-gnu.so"])
def test_a_module_that_is_beside_the_script_is_not_preloaded(tmp_path: Path, shadow: str) -> None:
    (tmp_path / "code" / shadow).parent.mkdir(parents=True)
    (tmp_path / "code" / shadow).touch()
    for words in (["code/train.py"], ["-m", "pylaunch.runtime", "code/train.py"]):
        reason = unmet_condition(task(tmp_path, [PYTHON, "-u", *words], preload=["json:loads"]), forks({}))
        assert reason == f"{tmp_path}/code/json takes the place of the module json"


def test_a_file_that_python_does_not_import_takes_no_place(tmp_path: Path) -> None:
    (tmp_path / "json.json").touch()
    assert unmet_condition(task(tmp_path, [PYTHON, "-u", "train.py"], preload=["json"]), forks({})) == ""


def test_the_number_of_ranks_is_bounded(tmp_path: Path) -> None:
    words = [[PYTHON, "-u", "train.py"]] * (MOST_RANKS + 1)
    assert "more than 64" in unmet_condition(task(tmp_path, *words), forks(*[{}] * len(words)))


def test_ranks_of_a_launcher_are_not_forked(tmp_path: Path) -> None:
    words = [PYTHON, "-u", "train.py"]
    asked = task(tmp_path, words, launcher=["torchrun"])
    assert unmet_condition(asked, forks({})) == "a launcher starts the ranks"


def test_the_reader_of_occupants_knows_forked_ranks_by_the_variable_of_their_template() -> None:
    assert occupants.FORKED_RANK == sitecustomize.TEMPLATE
