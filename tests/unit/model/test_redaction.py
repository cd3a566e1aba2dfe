"""Secrets are masked wherever a name, a shape or a known value marks them, and other text stays."""

import json
import time

import pytest

from pylaunch.model.secret import Secrets, is_masked, masked, secret_values, sounds_secret
from pylaunch.model.text.redaction import Redaction, secrets_in

SECRET = "tr0ub4dor&3-Zq"


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN={}",
        "export WANDB_API_KEY='{}'",
        'password: "{}"',
        '{{"hf_token": "{}"}}',
        '["train.py", "--api-key", "{}", "--lr", "3"]',
        "train.py --hf-token {} --lr 3",
        "train.py --auth.token={}",
        "n1 ansible_become_pass={} interface=ib0",
        "ansible_password: {}",
        "apiKey: {}",
        "dbPassword = {}",
        r"{{\"SECRET\": \"{}\"}}",
        "https://ada:{}@wheels.example/simple",
        "the value is {} here",
        "AWS_SECRET_ACCESS_KEY: {}",
    ],
)
def test_a_secret_is_masked_in_every_form(text: str) -> None:
    written = text.format(SECRET)
    known = [SECRET] if "value is" in text else []
    hidden = Redaction(known).hide(written)
    assert "tr0ub" not in hidden
    assert "Zq" not in hidden
    assert "***" in hidden


@pytest.mark.parametrize(
    "text",
    [
        "TOKENIZERS_PARALLELISM=false",
        "MAX_TOKENS=512",
        "AWS_ACCESS_KEY_ID=AKIAEXAMPLE",
        "sort_key: name",
        "the token was accepted",
        "forward pass: 3 ms",
        "NCCL_SOCKET_IFNAME=^docker0,lo",
        "KeyError: 'step'",
        "path=/data/shard-7",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert Redaction(["something else"]).hide(text) == text


def test_known_values_are_found_in_json_and_in_urls() -> None:
    value = 'pa"ss\\wörd/1'
    mask = Redaction([value])
    for text in (value, json.dumps({"x": value}), json.dumps(value, ensure_ascii=False), "?q=pa%22ss%5Cw%C3%B6rd%2F1"):
        assert "***" in mask.hide(text), text
        assert "rd/1" not in mask.hide(text)


def test_every_line_of_a_key_is_masked() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n-----END OPENSSH PRIVATE KEY-----"
    assert "b3Blb" not in Redaction().hide(f"cat id\n{key}\nnext")
    assert Redaction().hide(f"{key}\nnext").endswith("***\nnext")
    assert Redaction([key]).hide("first\nb3BlbnNzaC1rZXkt\n") == "first\n***\n"


@pytest.mark.parametrize(
    "token",
    [
        "hf_abcdefghijklmnopqrstuvwx",
        "ghp_abcdefghijklmnopqrstuvwx0123",
        "Authorization: Bearer abcdefgh12345678",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig-nature",
    ],
)
def test_tokens_are_known_by_their_shape(token: str) -> None:
    assert token[-8:] not in Redaction().hide(f"login with {token} failed")


def test_values_are_read_from_an_inventory() -> None:
    text = "n1 ansible_become_pass=hunter22\nn2 ansible_password='{{ vault_password }}'\nwandb_api_key: abcdef123\n"
    assert list(secrets_in(text)) == ["hunter22", "abcdef123"]


def test_hostile_lines_take_linear_time() -> None:
    begun = time.process_time()
    for text in ("a." * 500_000, "key" * 300_000, "token=" * 150_000, "://" * 300_000, "-----BEGIN " * 90_000):
        Redaction(["known-value"]).hide(text)
    assert time.process_time() - begun < 20


SECRETS = "HF_TOKEN WANDB_API_KEY AWS_SECRET_ACCESS_KEY DB_PASSWORD CLIENT_SECRET GITHUB_PAT token"
OTHERS = "TOKENIZERS_PARALLELISM MAX_TOKENS AWS_ACCESS_KEY_ID SORT_KEY KEY PATH SECRETARY"


def test_names_that_say_it_and_names_that_only_contain_such_a_word() -> None:
    assert [name for name in f"{SECRETS} {OTHERS}".split() if sounds_secret(name)] == SECRETS.split()


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
