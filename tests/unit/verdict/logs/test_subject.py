"""Verdicts name the module, file, variable, port or host that the text names."""

import pytest

from pylaunch.store.content import signature_sources, signatures
from pylaunch.verdict.logs.clue import LONGEST_VALUE, subject_of
from pylaunch.verdict.logs.judgement import LONGEST_TEXT
from tests.unit.verdict.logs.judged import cause_in, scanned

CATALOGUE = signatures()
WITHOUT = {"ckpt-reader", "extension-loading", "nccl-nvls", "py-eaddrinuse"}
"""Signatures whose example is one of several forms, without a subject."""


def text_of(log: str) -> str:
    return cause_in([scanned(log)]).text


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("ModuleNotFoundError: No module named 'flash_attn'", "flash_attn"),
        ("ImportError: cannot import name 'cached' from 'huggingface_hub' (/opt/x.py)", "cached of huggingface_hub"),
        ("OSError: [Errno 28] No space left on device: '/ckpt/step_400'", "/ckpt/step_400"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/shard 7.bin'", "/data/shard 7.bin"),
        ('FileNotFoundError: [Errno 2] No such file or directory: "/data/it\'s.bin"', "/data/it's.bin"),
        ("PermissionError: [Errno 13] Permission denied: '/data/out'", "/data/out"),
        ("bash: line 1: torchrun: command not found", "torchrun"),
        ("ValueError: env:// rendezvous: environment variable MASTER_ADDR expected, but not set", "MASTER_ADDR"),
        ("OSError: [Errno 98] error while attempting to bind on address ('::', 8265): address already in use", "8265"),
        ("OSError: [Errno 98] Address already in use: port 29500", "29500"),
        ("ssh: connect to host 10.0.0.17 port 2222: No route to host", "10.0.0.17 port 2222"),
        ("ssh: Could not resolve hostname node07: Name or service not known", "node07"),
        ("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory", "libcudart.so.12"),
        ("nfs: server 10.0.0.5 not responding, timed out", "10.0.0.5"),
    ],
)  # fmt: skip
def test_the_verdict_has_the_subject_of_the_text(line: str, subject: str) -> None:
    assert subject in text_of(line)


def test_the_example_of_a_signature_has_a_subject() -> None:
    showing = [each for each in CATALOGUE.signatures.values() if each.shows]
    matches = [(each, scanned(signature_sources()[each.id].example).matches) for each in showing]
    found = {each.id: subject_of(next(match for match in of if match.signature is each)) for each, of in matches}
    assert {name for name, subject in found.items() if subject == ""} == WITHOUT
    assert [name for name, subject in found.items() if "{" in subject] == []


def test_a_text_without_a_subject_is_explained_without_one() -> None:
    assert text_of("tar: No space left on device") == "A file system has no room, or no free inodes"


def test_a_subject_is_bounded_and_cannot_control_a_terminal() -> None:
    hostile = text_of(
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/\x1b]0;owned\x07/\u202e{0.__class__}'"
    )
    assert "\x1b" not in hostile
    assert "\u202e" not in hostile
    assert "{0.__class__}" in hostile
    long = text_of(f"FileNotFoundError: [Errno 2] No such file or directory: '/data/{'x' * 380}/end.bin'")
    assert long.endswith("/end.bin")
    assert len(long) <= LONGEST_VALUE + 80 <= LONGEST_TEXT
