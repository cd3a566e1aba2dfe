import pytest

from pylaunch.model.secret import Secrets, is_masked, masked, secret_values, sounds_secret


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


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("train.py --password x --lr 3", "train.py --password *** --lr 3"),
        ("train.py --api-token=x", "train.py --api-token=***"),
        ("train.py model.api_key=x +hf.token=y", "train.py model.api_key=*** +hf.token=***"),
        ("env HF_TOKEN=x python", "env HF_TOKEN=*** python"),
        ("x https://me:pw@host/a?b=c", "x https://me:***@host/a?b=c"),
        ("--password --lr 3", "--password --lr 3"),
        ("--token=", "--token="),
        (
            "--pad-token 0 --max-token 5 --tokens 7 --key-value 3",
            "--pad-token 0 --max-token 5 --tokens 7 --key-value 3",
        ),
    ],
)
def test_values_that_a_name_marks_are_masked_once(words: str, shown: str) -> None:
    masked_words = masked(words.split())
    assert " ".join(masked_words) == shown
    assert masked(masked_words) == masked_words
    assert is_masked(masked_words) == (words != shown)
    assert not is_masked(words.split())
    assert [value for value in secret_values(words.split()) if value not in ("x", "y", "pw")] == []
