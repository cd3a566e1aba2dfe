"""TARGET of `start --notify`."""

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.notify.target import NotifyTarget, TargetKind, read_target

SECRET = "T0/B0/s3cr3t"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only programs."""
    for name in ("sendmail", "notify-send", "apprise", "keep"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pylaunch.transport.process.SBIN", ())
    return tmp_path


def test_a_command_is_split_into_words_and_no_shell_reads_it(programs: Path) -> None:
    target = read_target("command:keep 'two words' $HOME; rm", {})
    assert target == NotifyTarget(
        TargetKind.COMMAND, "command:keep", (str(programs / "keep"), "two words", "$HOME;", "rm")
    )


def test_a_url_is_shown_as_its_host_or_as_the_variable_that_has_it(programs: Path) -> None:
    url = f"https://hooks.example.com/services/{SECRET}"
    assert read_target(url, {}) == NotifyTarget(TargetKind.WEBHOOK, "https://hooks.example.com/…", url=url)
    assert read_target("env:HOOK", {"HOOK": url}) == NotifyTarget(TargetKind.WEBHOOK, "env:HOOK", url=url)
    apprise = read_target(f"tgram://{SECRET}", {})
    assert (apprise.kind, apprise.shown, apprise.url) == (TargetKind.APPRISE, "tgram://…", f"tgram://{SECRET}")
    assert not any(SECRET in word for word in apprise.argv)


def test_mail_and_desktop_have_a_program_each(programs: Path) -> None:
    assert read_target("mailto:me@example.com", {}).argv == (str(programs / "sendmail"), "-i", "me@example.com")
    assert read_target("desktop", {}).argv[0] == str(programs / "notify-send")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("command:", "no program"),
        ("command:keep 'open", "No closing quotation"),
        ("command:absent-program", "program not found: absent-program"),
        ("mailto:-f@example.com", "not a target"),
        ("mailto:a@b.com,c@d.com", "not a target"),
        ("env:UNSET", "the variable is not set"),
        ("env:AGAIN", "names another variable"),
        ("train.py", "not a target"),
        ("https:///path", "expected a host"),
        (f"https://user:{SECRET}@example.com/", "no user name"),
        (f"https://example.com/ {SECRET}", "not a target"),
        (f"https://[{SECRET}", "expected a host"),
        (f"env:HAS:{SECRET}", "the variable is not set"),
    ],
)
def test_what_is_no_target_is_refused(programs: Path, value: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_target(value, {"AGAIN": "env:AGAIN", "HAS": SECRET})
    assert "HAS" in value or SECRET not in refused.value.render()


def test_a_value_that_is_no_target_is_not_repeated_from_a_variable(programs: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_target("env:HOOK", {"HOOK": SECRET})
    assert SECRET not in refused.value.render()
    assert "--notify env:HOOK: not a target" in refused.value.message
