"""Hosts in the texts that people have."""

import pytest

from pylaunch.features.init.judgement.sources import NamedHost, SourceReading, in_ssh_config, in_text, in_words, merged

ETC_HOSTS = """\
# added by hand
10.0.0.1 gpu01 gpu01.example.com
2001:db8::2\tgpu02   # the second
"""


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu[01-02],x\n", [NamedHost("gpu01"), NamedHost("gpu02"), NamedHost("x")]),
        ("gpu01 slots=8 max_slots=16\ngpu02:4\n", [NamedHost("gpu01", slots=8), NamedHost("gpu02", slots=4)]),
        ("train@gpu01\n", [NamedHost("gpu01", user="train")]),
        ("n1 n2\n10.0.0.3\n", [NamedHost("n1"), NamedHost("n2"), NamedHost("10.0.0.3")]),
        (ETC_HOSTS, [NamedHost("gpu01", "10.0.0.1"), NamedHost("gpu02", "2001:db8::2")]),
    ],
)
def test_a_text_names_hosts(text: str, hosts: list[NamedHost]) -> None:
    assert in_text(text, "stdin") == SourceReading(tuple(hosts))


def test_words_name_user_and_port() -> None:
    assert in_words(["train@10.0.0.1:2222", "gpu[1-2]"]).hosts == (
        NamedHost("10.0.0.1", user="train", port=2222), NamedHost("gpu1"), NamedHost("gpu2"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("gpu[01-", "unbalanced bracket in 'gpu[01-'"),
        ("n1:99999", "n1:99999: expected a port from 1 to 65535"),
        ("a b", "'a b' is not a host: expected NAME, USER@NAME or NAME:PORT"),
        ("-oProxyCommand=x", "'-oProxyCommand=x' is not a host: expected NAME, USER@NAME or NAME:PORT"),
        ("2001:db8::1", "2001:db8::1: an IPv6 address needs a name; in a file: 2001:db8::1 NAME"),
        (
            "[2001:db8::1]:22",
            "[2001:db8::1]:22: an IPv6 address needs a name; in a file: 2001:db8::1 NAME, and Port 22 in ~/.ssh/config",
        ),
    ],
)
def test_a_word_that_is_no_host_is_a_complaint(word: str, complaint: str) -> None:
    assert in_words([word]) == SourceReading((), (complaint,))


def test_names_of_the_configuration_of_ssh_that_match() -> None:
    lines = ["Host gpu01 gpu02 *.lab", "  HostName 10.0.0.1", "host=head", "Host * !github.com", "Host github.com"]
    assert in_ssh_config(lines, "gpu*,head").hosts == (NamedHost("gpu01"), NamedHost("gpu02"), NamedHost("head"))
    assert in_ssh_config(lines, "gpu[01-02]").hosts == (NamedHost("gpu01"), NamedHost("gpu02"))
    assert in_ssh_config(["Host\tgpu01", 'Host "gpu02"', "Host = gpu03"], "gpu*").hosts == (
        NamedHost("gpu01"), NamedHost("gpu02"), NamedHost("gpu03"),
    )  # fmt: skip
    assert in_ssh_config(lines, "tpu*").complaints == ("no Host of ~/.ssh/config matches tpu*",)


def test_a_host_of_two_texts_is_one_host_and_two_addresses_are_a_complaint() -> None:
    known = SourceReading((NamedHost("n1", "10.0.0.1"),))
    assert merged([known, known]).hosts == known.hosts
    again = merged([known, SourceReading((NamedHost("n1", "10.0.0.2", port=22),), ("bad",))])
    assert again.complaints == ("bad", "n1 is named twice: 10.0.0.1 and 10.0.0.2:22")
