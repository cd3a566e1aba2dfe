import pytest

from pylaunch.model.secret import Secrets, sounds_secret


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "CLIENT_SECRET", "GITHUB_PAT", "token"],
)
def test_names_that_say_it(name: str) -> None:
    assert sounds_secret(name)


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "AWS_ACCESS_KEY_ID", "SORT_KEY", "KEY", "PATH", "SECRETARY"]
)
def test_names_that_only_contain_such_a_word(name: str) -> None:
    assert not sounds_secret(name)


def test_secrets_come_out_by_name_and_are_never_printed() -> None:
    secrets = Secrets({"HF_TOKEN": "hunter2hunter2"})
    assert secrets["HF_TOKEN"] == "hunter2hunter2"
    assert f"{secrets!r} {secrets}" == "Secrets(HF_TOKEN=***) Secrets(HF_TOKEN=***)"
