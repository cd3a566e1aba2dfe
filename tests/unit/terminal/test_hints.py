"""Commands in hints work as they are pasted."""

import importlib
from pathlib import Path

import click
import pytest

from pylaunch.cli.main import VERBS
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.text.argv import pylaunch
from pylaunch.terminal.doors import Names
from pylaunch.terminal.hints import completed, of_run
from pylaunch.terminal.options import Invocation
from pylaunch.terminal.views.outcome import show_outcome

GIVEN = Invocation(verbs=VERBS, inventory=("-i", "../my clusters/a.ini"))


def within_a_command() -> click.Context:
    return click.Context(click.Command("start"), obj=Invocation(verbs=VERBS))


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (
            pylaunch("provision", "--limit", "gpu[01-02]"),
            "pylaunch provision -i '../my clusters/a.ini' --limit 'gpu[01-02]'",
        ),
        ("pylaunch stop 7f3a", "pylaunch stop 7f3a"),
        ("pylaunch start --scheduler slurm -- a", "pylaunch start --scheduler slurm -- a"),
        ("pylaunch env lock requirements.txt", "pylaunch env lock -i '../my clusters/a.ini' requirements.txt"),
        ("pylaunch check -i other.ini", "pylaunch check -i other.ini"),
        ("pylaunch check -H n1; pylaunch verify", "pylaunch check -H n1; pylaunch verify -i '../my clusters/a.ini'"),
        ("pylaunch start -- a.py -i x", "pylaunch start -i '../my clusters/a.ini' -- a.py -i x"),
        ("see pylaunch help provision", "see pylaunch help provision"),
    ],
)
def test_a_command_names_the_inventory_that_was_given(hint: str, shown: str) -> None:
    assert completed(hint, GIVEN) == shown


def test_after_a_verb_of_a_run_that_was_given_an_inventory_the_next_one_gets_it_too() -> None:
    given = Invocation(verb="status", verbs=VERBS, inventory=("-i", "other.ini"))
    assert completed("pylaunch logs 7f3a --rank 1", given) == "pylaunch logs -i other.ini 7f3a --rank 1"


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (
            "pylaunch provision --deep --roles python_env --limit n[1-2]",
            "--python PATH of an environment that all nodes of the job see",
        ),
        (
            "pylaunch provision --roles host_baseline --limit n2",
            "ask the administrator of the nodes for it (role host_baseline: pylaunch help provision)",
        ),
        (
            "install python3 there: pylaunch provision",
            "install python3 there: ask the administrator of the nodes for it",
        ),
    ],
)
def test_nobody_is_to_provision_the_nodes_of_a_slurm_job(hint: str, shown: str) -> None:
    assert completed(hint, Invocation(has_slurm_nodes=True)) == shown


def test_hints_about_a_recorded_run_know_whose_its_nodes_are() -> None:
    nodes = Cluster((Host("n1", "n1", Connection.SLURM, slurm_job="7"),), sources=("/a.ini",))
    plan = plan_run(nodes, JobSpec(("a",), Framework.COMMAND, "/"), "eeeeeeee")
    with within_a_command():
        assert of_run(plan)("pylaunch check") == "pylaunch check -i /a.ini"
        assert of_run(plan)("pylaunch provision") == "ask the administrator of the nodes for it"
    with click.Context(click.Command("report"), obj=GIVEN):
        assert of_run(plan, for_others=True)("pylaunch check") == "pylaunch check -i /a.ini"


def test_the_next_step_of_a_run_names_the_inventory_of_its_start_unless_that_is_the_one_found_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=(str(tmp_path / "cluster.ini"),))
    plan = plan_run(cluster, JobSpec(("a",), Framework.COMMAND, "/"), "7f3a")
    cause = FailureCause("agent-lost", "n1 is lost", Confidence.MEDIUM, None, hint="pylaunch check --limit n1")
    outcome = Outcome(Status.FAILED, "n1 is lost", 9.0, (), {}, causes=(cause,))
    with within_a_command():
        show_outcome(plan, outcome)
    assert capsys.readouterr().err.endswith(f"\nhint: pylaunch check -i {tmp_path}/cluster.ini --limit n1\n")
    (tmp_path / "cluster.ini").touch()
    monkeypatch.chdir(tmp_path)
    with within_a_command():
        show_outcome(plan, outcome)
    assert capsys.readouterr().err.endswith("\nhint: pylaunch check --limit n1\n")


def test_hosts_that_a_shell_would_take_for_a_pattern_are_quoted() -> None:
    text = "pylaunch trust --replace --limit n[1-3,7],x; or wait for n[1-2]"

    assert completed(text, Invocation()) == "pylaunch trust --replace --limit 'n[1-3,7],x'; or wait for n[1-2]"


def test_without_a_lock_the_hint_is_to_lock_first(tmp_path: Path) -> None:
    given = Invocation(verbs=VERBS, inventory=("-i", "a.ini"), source=tmp_path / "a.ini")
    hint = "pylaunch provision --roles python_env --limit n1"

    assert completed(hint, given) == (
        "pylaunch env lock -i a.ini requirements.txt && pylaunch provision -i a.ini --roles python_env --limit n1"
    )

    (tmp_path / ".pylaunch" / "environment").mkdir(parents=True)
    (tmp_path / ".pylaunch" / "environment" / "manifest.json").touch()

    assert completed(hint, given) == "pylaunch provision -i a.ini --roles python_env --limit n1"


def test_a_row_of_a_verb_says_what_its_options_name() -> None:
    for name, verb in VERBS.items():
        command: click.Command = importlib.import_module(verb.module).command
        below = command.commands if isinstance(command, click.Group) else {"": command}
        texts = {each: str([option.help for option in found.params if isinstance(option, click.Option)])
                 for each, found in below.items()}  # fmt: skip
        naming = {each for each, text in texts.items() if "Ansible inventory" in text}
        assert naming == (set(verb.subcommands) or ({""} if verb.names is Names.HOSTS else set())), name
