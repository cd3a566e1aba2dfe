import pytest

from pylaunch.errors import UsageError
from pylaunch.terminal.flags.start import Environment, environment

OURS = {"HF_TOKEN": "hf_0123456789", "CACHE": "/c"}


def given(env: tuple[str, ...] = (), secret: tuple[str, ...] = ()) -> Environment:
    return environment(env, secret, OURS)


def test_a_name_alone_passes_our_value_and_the_last_value_of_a_name_wins() -> None:
    assert given(env=("A=1", "CACHE", "A=2")).plain == {"A": "2", "CACHE": "/c"}


def test_variables_with_names_of_secrets_become_secrets() -> None:
    found = given(env=("HF_TOKEN", "WANDB_API_KEY=0123456789", "TOKENIZERS_PARALLELISM=false"))
    assert found.plain == {"TOKENIZERS_PARALLELISM": "false"}
    assert dict(found.secrets) == {"HF_TOKEN": "hf_0123456789", "WANDB_API_KEY": "0123456789"}
    assert "0123456789" not in repr(found)


def test_a_secret_on_the_command_line_is_refused_without_being_repeated() -> None:
    with pytest.raises(UsageError) as error:
        given(secret=("HF_TOKEN=hf_9876543210",))
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
    ],
)
def test_invalid_environment_flags_are_refused(flags: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(UsageError) as error:
        given(**flags)
    assert error.value.message == message
