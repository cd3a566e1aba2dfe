from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.terminal.flags.environment import Environment, given, read_environment

OURS = {"HF_TOKEN": "hf_0123456789", "CACHE": "/c"}


def env(env: tuple[str, ...] = (), env_file: tuple[str, ...] = (), secret: tuple[str, ...] = ()) -> Environment:
    return given(env, env_file, secret, OURS)


def test_a_name_alone_passes_our_value_and_the_flag_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text("A=file\nB=file\n")
    assert env(env=("A=flag", "CACHE"), env_file=(str(file),)).plain == {"A": "flag", "B": "file", "CACHE": "/c"}


def test_variables_with_names_of_secrets_become_secrets(tmp_path: Path) -> None:
    file = tmp_path / "job.env"
    file.write_text("WANDB_API_KEY=0123456789\nTOKENIZERS_PARALLELISM=false\n")
    found = env(env=("HF_TOKEN",), env_file=(str(file),))
    assert found.plain == {"TOKENIZERS_PARALLELISM": "false"}
    assert dict(found.secrets) == {"HF_TOKEN": "hf_0123456789", "WANDB_API_KEY": "0123456789"}
    assert "0123456789" not in repr(found)


def test_a_secret_on_the_command_line_is_refused_without_being_repeated() -> None:
    with pytest.raises(UsageError) as error:
        env(secret=("HF_TOKEN=hf_9876543210",))
    assert "--secret HF_TOKEN=…: a value on a command line can be read by everybody" in error.value.message
    assert "9876543210" not in error.value.render()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"env": ("1A=x",)}, "--env 1A: expected NAME=VALUE or NAME"),
        ({"env": ("MISSING",)}, "--env MISSING: there is no such variable here"),
        ({"secret": ("MISSING",)}, "--secret MISSING: there is no such variable here"),
        ({"secret": ("not a name",)}, "--secret: expected the NAME of a variable"),
        ({"env": ("CACHE=x",), "secret": ("CACHE",)}, "CACHE: given as a variable and as a secret"),
        ({"env_file": ("/nowhere/job.env",)}, "--env-file /nowhere/job.env: cannot be read: No such file or directory"),
    ],
)
def test_invalid_environment_flags_are_refused(flags: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(UsageError) as error:
        env(**flags)
    assert error.value.message == message


def test_a_file_with_secrets_open_to_others_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "secrets"
    file.write_text("HF_TOKEN=12345678\n")
    file.chmod(0o644)
    assert dict(env(env_file=(str(file),)).secrets) == {"HF_TOKEN": "12345678"}
    assert "is open to others (mode 0644); close it: chmod 600" in capsys.readouterr().err.replace("\n", " ")
    file.chmod(0o600)
    env(env_file=(str(file),))
    assert capsys.readouterr().err == ""


HOME = {"HF_HOME": "/data/hf"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  export A = 1".replace(" = ", "="), "1"),
        ("A=", ""),
        ("A=two words", "two words"),
        ("A=  blanks around  ", "blanks around"),
        ("A=value # the reason", "value"),
        ("A=# nothing", ""),
        ("A=not#acomment", "not#acomment"),
        ("A='  $HOME # \"as it is\" '", '  $HOME # "as it is" '),
        ("A='x' # why", "x"),
        (r'A="line\nline\ttab \"quoted\" \\"', 'line\nline\ttab "quoted" \\'),
        ("A=$HOME", "$HOME"),
        ("A=a=b", "a=b"),
        ("A=1\r", "1"),
    ],
)
def test_a_line_sets_what_it_says(line: str, value: str) -> None:
    assert read_environment(f"# first\n\n{line}\n", "job.env", HOME) == {"A": value}


def test_a_name_alone_takes_our_value() -> None:
    assert read_environment("HF_HOME\n", "job.env", HOME) == {"HF_HOME": "/data/hf"}


def test_all_wrong_lines_are_reported_at_once_with_their_place_and_no_value() -> None:
    text = 'A=1\n1B=hunter2\nhunter2 is it\nMISSING\nA=hunter2\nC=\'hunter2\nD="hunter2\\q"\nE=hunter2\0\n'
    with pytest.raises(UsageError) as error:
        read_environment(text, "job.env", HOME)
    assert error.value.evidence == (
        "job.env:2: expected NAME=VALUE, and a name is letters, digits and _",
        "job.env:3: expected NAME=VALUE, and a name is letters, digits and _",
        "job.env:4: MISSING stands alone, and pylaunch itself has no such variable",
        "job.env:5: A is set a second time, first in line 1",
        "job.env:6: the value of C begins with ' and does not end with it",
        'job.env:7: the value of D contains \\q; known are \\n, \\t, \\" and \\\\',
        "job.env:8: the value of E contains a NUL",
    )
    assert "hunter2" not in error.value.render()
