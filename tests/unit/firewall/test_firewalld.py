"""The role firewall with firewalld: the files that it writes, and its reading of the kernel's rules."""

import importlib
import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from pylaunch.store import content

MODULES = ("host", "rules", "firewalld")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """Modules of the program: Python runs its directory, which is not a package."""
    monkeypatch.syspath_prepend(str(content.roles_directory() / "firewall" / "files" / "firewall"))
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("closed", "ssh", "left"),
    [
        (["29400-29599"], [22], ["29400-29599"]),
        (["1-65535"], [22], ["1-21", "23-65535"]),
        (["22", "29500"], [22], ["29500"]),
        (["20-24"], [24, 20, 22], ["21", "23"]),
    ],
)
def test_ports_of_ssh_are_excluded_from_the_closed_ranges(
    program: dict[str, ModuleType], closed: list[str], ssh: list[int], left: list[str]
) -> None:
    wanted = program["rules"].Wanted([], closed, [], ssh, "", "")
    assert wanted.closed_beside_ssh == left


def test_members_are_accepted_before_others_are_refused_on_tcp_alone(
    program: dict[str, ModuleType],
) -> None:
    wanted = program["rules"].Wanted(["10.0.0.1", "fd00::1"], ["29500"], [123], [22], "", "")
    texts = program["firewalld"].Firewalld()._texts(wanted)
    policy = ElementTree.fromstring(texts["/etc/firewalld/policies/pylaunch.xml"].encode())
    rules = [(rule.get("family"), int(rule.get("priority", "0")), [each.tag for each in rule], rule.find("port"))
            for rule in policy.iter("rule")]  # fmt: skip
    for family in ("ipv4", "ipv6"):
        accepted = {
            (port.get("port"), port.get("protocol"))
            for each, priority, tags, port in rules
            if each == family and priority < 0 and tags == ["source", "port", "accept"] and port is not None
        }
        refused = {
            (port.get("port"), port.get("protocol"))
            for each, priority, tags, port in rules
            if each == family and priority > 0 and tags == ["port", "reject"] and port is not None
        }
        assert (accepted, refused) == ({("29500", "tcp"), ("123", "udp")}, {("29500", "tcp")})
    assert "<entry>10.0.0.1</entry>" in texts["/etc/firewalld/ipsets/pylaunch-members4.xml"]
    assert "<entry>fd00::1</entry>" in texts["/etc/firewalld/ipsets/pylaunch-members6.xml"]


def kernel(*, reached: bool) -> str:
    """Return the output of nft for an installed policy, with or without a jump to it."""
    chain = "filter_IN_policy_pylaunch"
    rules: list[Any] = [{"rule": {"chain": f"{chain}_post", "handle": 7, "expr": [{"reject": {"type": "tcp reset"}}]}}]
    if reached:
        rules.append(
            {"rule": {"chain": "filter_INPUT_POLICIES_pre", "handle": 9, "expr": [{"jump": {"target": chain}}]}}
        )
    members = {"set": {"name": "pylaunch-members4", "elem": ["10.0.0.2", {"range": ["10.0.0.4", "10.0.0.9"]}]}}
    foreign = {"set": {"name": "banned", "elem": ["192.0.2.1"]}}
    return json.dumps({"nftables": [{"metainfo": {}}, members, foreign, *rules]})


def test_rules_that_no_packet_reaches_differ_from_active_rules(
    program: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    firewalld, found = program["firewalld"], {}
    for reached in (True, False):
        output = {"tables": "table inet firewalld\n", "table": kernel(reached=reached)}
        monkeypatch.setattr(
            firewalld, "run", lambda words, output=output: output[words[2] if words[1] == "list" else words[3]]
        )
        found[reached] = firewalld.Firewalld().live()
    assert found[True].rules != found[False].rules
    assert found[True].members == ["10.0.0.2", json.dumps({"range": ["10.0.0.4", "10.0.0.9"]})]


@pytest.mark.parametrize(
    ("version", "refused"), [("0.8.2", True), ("0.9.3", False), ("1.3.3", False), ("2.3.0", False)]
)
def test_a_firewalld_without_policies_is_refused_with_a_reason(
    program: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch, version: str, refused: bool
) -> None:
    firewalld = program["firewalld"]
    monkeypatch.setattr(firewalld, "run", lambda words: version + "\n")
    monkeypatch.setattr(firewalld, "text_of", lambda path: "FirewallBackend=nftables\n")
    if refused:
        with pytest.raises(program["host"].RefusedError, match=r"firewalld 0\.8\.2 has no policies"):
            firewalld.Firewalld.supported()
    else:
        firewalld.Firewalld.supported()
