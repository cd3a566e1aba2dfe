"""Errors outside of the verbs: bugs, misspelt words, --json; help pages and completion."""

import errno
import json
import re
from typing import NoReturn

import click
import pytest

from pylaunch.cli import main
from pylaunch.errors import ExitCode


def fails_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(main.pylaunch, "main", fail)
    return main.run(["ps"])


def test_an_unexpected_error_is_a_bug_with_its_stack_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fails_with(OSError(errno.EIO, "Input/output error"), monkeypatch) == ExitCode.BUG
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["env"]])
def test_a_group_without_a_command_is_its_help_and_no_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == ExitCode.USAGE
    printed = capsys.readouterr()
    assert printed.err.startswith(f"Usage: {' '.join(['pylaunch', *words])} ")
    assert printed.out == ""
    assert re.search("^(Commands|Prepare):$", printed.err, re.MULTILINE)
    assert "error:" not in printed.err
    assert "hint:" not in printed.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["provisio"], "provision"), (["env", "lok"], "lock"), (["start", "--nproc", "2"], "--nproc-per-node")],
)
def test_a_misspelt_word_gets_the_closest_name_as_a_suggestion(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == ExitCode.USAGE
    assert "did you mean" in (error := capsys.readouterr().err).lower()
    assert meant in error


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["start", "--fsdp", "x"], "pylaunch start --help"),
        (["torchrun", "--nproc_per_node", "2", "t.py"], "pylaunch start -- torchrun --nproc_per_node 2 t.py"),
        (["accelerate", "launch", "t.py", "--out", "a b"], "pylaunch start -- accelerate launch t.py --out 'a b'"),
    ],
)
def test_an_option_or_line_of_another_launcher_leads_to_ours(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == ExitCode.USAGE
    assert capsys.readouterr().err.splitlines()[-1] == f"hint: {hint}"


def option_words(verb: str) -> list[str]:
    """Return the options of a verb that have a hyphen inside, with values, as torchrun spells them."""
    command = main.pylaunch.get_command(click.Context(main.pylaunch), verb)
    assert command is not None
    return [each for option in command.params for each in option.opts if "-" in each[2:]]


def test_options_may_have_underscores_as_those_of_torchrun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(click.Command, "invoke", lambda self, context: None)
    assert {"--nproc-per-node", "--max-restarts"} <= set(option_words("start"))
    for verb in main.VERBS:
        for option in option_words(verb):
            main.run([verb, option.replace("-", "_").replace("__", "--", 1)])
            assert f"No such option '{option}'" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["ps", "--json", "--nonsense"], "No such option", "pylaunch ps --help"),
        (["check", "-i", "nowhere.ini", "--json"], "no such inventory", "pylaunch init 'gpu[01-02]' writes one"),
        (["gpus", "--json", "-i", "nowhere.ini", "-H", "n1"], "one of them", ""),
        (["gpus", "--json", "-H", "ada@n1"], "the user belongs in ~/.ssh/config", "pylaunch init ada@n1"),
    ],
)
def test_an_error_is_a_document_where_json_was_asked_for(
    words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == ExitCode.USAGE

    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["schema_version"], document["verb"], document["exit_code"]) == (1, words[0], ExitCode.USAGE)
    assert message in document["error"]["message"]
    assert document["error"]["exit_code"] == ExitCode.USAGE
    assert document["error"]["hint"] in printed.err
    assert document["error"]["hint"].startswith(hint)


@pytest.mark.parametrize(
    "words",
    [
        ["attach", "nowhere"],
        ["start", "-i", "nowhere"],
        ["rerun", "nowhere"],
        ["start", "--nowhere"],
        ["start", "-H", "ada@nowhere"],
        ["attach", "--nowhere"],
    ],
)
def test_an_error_of_a_stream_is_a_line_of_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*words, "--json", *(("--", "true") if "start" in words else ())]) == ExitCode.USAGE
    (line,) = capsys.readouterr().out.splitlines()
    assert "nowhere" in json.loads(line)["error"]["message"]


def test_every_page_is_printed_by_its_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["help"]) == ExitCode.DONE
    topics = capsys.readouterr().out.splitlines()
    assert {"inventory", "runs", "cluster.ini"} <= {*topics}
    for topic in topics:
        assert main.run(["help", topic]) == ExitCode.DONE
        assert len(capsys.readouterr().out.splitlines()) > 3
    assert main.run(["help", "inventry"]) == ExitCode.USAGE


def completions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """Return the completions that bash offers for the last word of `line`."""
    words = line.split(" ")
    monkeypatch.setenv("_PYLAUNCH_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit):
        main.run([])
    return [each.partition(",")[2] for each in capsys.readouterr().out.splitlines() if each]


def test_verbs_and_options_are_completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert completions(monkeypatch, capsys, "pylaunch prov") == ["provision"]
    assert completions(monkeypatch, capsys, "pylaunch provision --ser") == ["--serial"]
