"""Hosts in the texts that people have."""

from pathlib import Path

import pytest

from pylaunch.features.init.sources import NamedHosts, in_text, in_words, named_hosts
from pylaunch.model.cluster import Host, SshOptions

ETC_HOSTS = """\
# added by hand
10.0.0.1 gpu01 gpu01.example.com
2001:db8::2\tgpu02   # the second
"""


def host(name: str, address: str = "", user: str | None = None, port: int | None = None) -> Host:
    return Host(name, address or name, ssh=SshOptions(user, port))


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu[01-02],x\n", [host("gpu01"), host("gpu02"), host("x")]),
        ("gpu01 slots=8 max_slots=16\ngpu02:4\n", [host("gpu01"), host("gpu02")]),
        ("train@gpu01\n", [host("gpu01", user="train")]),
        ("n1 n2\n10.0.0.3 slots=1\n", [host("n1"), host("n2"), host("10.0.0.3")]),
        (ETC_HOSTS, [host("gpu01", "10.0.0.1"), host("gpu02", "2001:db8::2")]),
    ],
)
def test_a_text_names_hosts(text: str, hosts: list[Host]) -> None:
    assert in_text(text, "hostfile") == NamedHosts(tuple(hosts))


def test_words_name_user_and_port() -> None:
    assert in_words(["train@10.0.0.1:2222", "gpu[1-2]"]).hosts == (
        host("10.0.0.1", user="train", port=2222), host("gpu1"), host("gpu2"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("gpu[01-", "unbalanced bracket in 'gpu[01-'"),
        ("n1:99999", "n1:99999: expected a port from 1 to 65535"),
        ("a b", "'a b' is not a host: expected NAME, USER@NAME or NAME:PORT"),
        ("-oProxyCommand=x", "'-oProxyCommand=x' is not a host: expected NAME, USER@NAME or NAME:PORT"),
        ("2001:db8::1", "2001:db8::1: an IPv6 address needs a name; in a file: 2001:db8::1 NAME"),
    ],
)
def test_a_word_that_is_no_host_is_a_complaint(word: str, complaint: str) -> None:
    assert in_words([word]) == NamedHosts((), (complaint,))


def test_a_host_of_two_texts_is_one_host_and_two_addresses_are_a_complaint(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("n1\n10.0.0.2 n2\na|b\n")
    found = named_hosts(["n1", "n2:22"], file)
    assert found.hosts == (host("n1"), host("n2", port=22))
    assert found.complaints == (
        "hosts:3: 'a|b' is not a host: expected NAME, USER@NAME or NAME:PORT",
        "n2 is named twice: n2:22 and 10.0.0.2",
    )
