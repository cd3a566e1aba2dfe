from dataclasses import replace

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.terminal import console
from pylaunch.terminal.views import findings

FULL = Finding("storage.room", Severity.FAIL, ("gpu01", "gpu02", "gpu04"), "/ is full", "df -h /", "", ("a line",))


def test_a_finding_is_its_hosts_folded_its_evidence_and_what_to_type() -> None:
    assert findings.lines(FULL) == [
        "FAIL  gpu[01-02,04]: / is full  [storage.room]",
        "      | a line",
        "      fix: df -h /",
    ]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--only", "storage.rom"], "did you mean storage.room"),
        (["--skip", "nothing"], "no such check: nothing"),
    ],
)
def test_invalid_flags_are_refused_before_any_host_is_asked(
    words: list[str], refusal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", "-i", "/nowhere/cluster.ini", *words]) == ExitCode.USAGE
    assert refusal in capsys.readouterr().err


def test_on_a_terminal_a_sentence_is_wrapped_at_words_and_a_command_is_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = replace(FULL, text="/ is full " * 6, fix="df -h / " * 12)
    findings.show([long])
    assert capsys.readouterr().out.splitlines() == findings.lines(long)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(console, "is_terminal", lambda _: True)
    monkeypatch.setattr(console, "width_of", lambda _: 40)
    findings.show([long])
    first, *more, evidence, fix = capsys.readouterr().out.splitlines()
    assert first == "FAIL  gpu[01-02,04]: / is full / is full"
    assert all(line.startswith("      ") and len(line) <= 40 for line in more)
    assert [evidence, fix] == findings.lines(long)[1:]
