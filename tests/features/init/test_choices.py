"""Values of an inventory, the reasons for them, and the text."""

from typing import Any

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.init import choices
from pylaunch.features.init.choices import FoundHost, FoundRoute, ProposedValue
from pylaunch.features.init.inventory_text import inventory_text
from pylaunch.model.cluster import Host, SshOptions

H100 = "NVIDIA H100 80GB HBM3"
CANDIDATES = (choices.PROVISIONED, "/opt/conda/bin/python")


def found(name: str, address: str = "", **known: Any) -> FoundHost:
    return FoundHost(Host(name, address or name), **known)


def resolving(name: str, own: str, **names: str) -> FoundHost:
    return found(name, addresses=("127.0.0.1", own), resolves={each: (to,) for each, to in names.items()})


def test_hosts_whose_names_lead_to_them_everywhere_need_no_address() -> None:
    names = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    hosts = [resolving("n1", "10.0.0.1", **names), resolving("n2", "10.0.0.2", **names)]
    assert choices.rank_addresses(hosts, {}).values == {}


def test_a_name_that_others_do_not_resolve_gets_the_address_of_its_connection() -> None:
    names = {"n1": "127.0.1.1", "n2": "10.0.0.2"}
    hosts = [resolving("n1", "10.0.0.1", **names), resolving("n2", "10.0.0.2", **names)]
    found_addresses = choices.rank_addresses(hosts, {"n1": "10.0.0.1", "n2": "10.0.0.2"})
    assert found_addresses.values == {"n1": "10.0.0.1"}
    assert found_addresses.why == ("fabric_address: other hosts do not resolve the name of n1 to it.",)
    behind_a_gateway = choices.rank_addresses(hosts, {"n1": "192.0.2.9"})
    assert behind_a_gateway.values == {"n1": "10.0.0.1"}


def test_a_host_without_a_usable_address_is_named() -> None:
    lost = found("n1", addresses=("127.0.0.1", "169.254.0.1"))
    why = choices.rank_addresses([lost, found("10.0.0.2", addresses=("10.0.0.2",))], {}).why
    assert why[-1] == "No address was found for n1: set fabric_address."


def test_devices_are_those_that_answer() -> None:
    hosts = [found("n1", gpus=8, cards=(H100,) * 7), found("n2", gpus=0), found("n3")]
    chosen = choices.devices(hosts)
    assert chosen.values == {"n1": "7"}
    assert chosen.why == (
        "gpus: n1: 7 NVIDIA devices answer.",
        "gpus: n2: no NVIDIA device, so runs compute on the CPU.",
        "gpus: n3: the devices could not be read, so runs compute on the CPU.",
    )


def test_an_interface_is_the_one_of_all_routes() -> None:
    hosts = [found(f"n{number}") for number in range(1, 7)]
    fast = FoundRoute("10.0.0.2", "eth0")
    chosen = choices.interfaces(
        hosts,
        {
            "n1": [fast, FoundRoute("10.0.0.3", "eth0")],
            "n2": [fast, FoundRoute("10.0.0.3", "ib0")],
            "n3": [fast, FoundRoute("10.0.0.4", "", "no route")],
            "n4": [FoundRoute("127.0.0.1", "lo")],
            "n5": [FoundRoute("10.0.0.2", "eth0 gpus=9")],
        },
    )
    assert chosen.values == {"n1": "eth0"}
    assert chosen.why == (
        "interface: n1: all peers are reached over eth0.",
        "interface: n2: peers are reached over eth0, ib0: set the one that ranks use.",
        "interface: n3: no way to 10.0.0.4: no route.",
        "interface: n4: peers are reached over lo, which ranks of other hosts cannot use.",
        "interface: n5: peers are reached over eth0 gpus=9, which ranks of other hosts cannot use.",
        "interface: n6: the routes to the other hosts could not be read.",
    )


def test_an_interpreter_has_a_framework_on_all_hosts() -> None:
    conda = {"/opt/conda/bin/python": ("torch 2.6.0",)}
    one, other = found("n1", frameworks=conda), found("n2", frameworks=conda)
    assert choices.interpreter([one, other], CANDIDATES).values == dict.fromkeys(("n1", "n2"), CANDIDATES[1])
    assert choices.interpreter([one, found("n2")], CANDIDATES).values == {}


def test_a_host_that_was_named_by_an_address_gets_its_own_name() -> None:
    hosts = [
        found("10.0.0.1", hostname="gpu01.example.com"), found("10.0.0.2", hostname="same"),
        found("10.0.0.3", hostname="same"), found("10.0.0.4", hostname="a b"), found("n5", hostname="other"),
    ]  # fmt: skip
    names = choices.named_by_hostname(hosts, [each.host.name for each in hosts])
    assert names == {"10.0.0.1": "gpu01"}
    renamed = choices.with_names(hosts, names)[0].host
    assert (renamed.name, renamed.address) == ("gpu01", "10.0.0.1")


EVIL = "2001:db8::1%x\n[all:vars]\nansible_ssh_common_args=-oProxyCommand=id"


def test_an_address_that_a_host_reports_cannot_add_lines_or_templates_to_the_inventory() -> None:
    for evil in (EVIL, "2001:db8::1%{{lookup('pipe','id')}}"):
        hosts = [found("n1", addresses=(evil,)), found("10.0.0.2", addresses=("10.0.0.2",))]
        assert choices.rank_addresses(hosts, {}).values == {}
        with pytest.raises(UsageError, match="cannot be written into an inventory"):
            inventory_text([], hosts, [ProposedValue("fabric_address", {"n1": evil})])


def test_values_that_all_hosts_share_are_below_the_hosts_and_each_has_its_reason() -> None:
    one = FoundHost(Host("gpu01", "10.0.0.1", ssh=SshOptions("train", 2222)), system="Debian 12", cards=(H100,) * 8)
    other = FoundHost(Host("gpu02", address="10.0.0.2"), system="Debian 12")
    text = inventory_text(
        ("heading",),
        (one, other),
        (
            ProposedValue("gpus", {"gpu01": "8", "gpu02": "8"}, ("gpus: why\nof two lines",)),
            ProposedValue("interface", {"gpu02": "ib0"}),
        ),
    )
    assert text == (
        "# heading\n"
        "\n"
        "[cluster]\n"
        "# gpu01: Debian 12, 8 x NVIDIA H100 80GB HBM3\n"
        "# gpu02: Debian 12\n"
        "gpu01 ansible_host=10.0.0.1 ansible_user=train ansible_port=2222\n"
        "gpu02 ansible_host=10.0.0.2 interface=ib0\n"
        "\n"
        "[cluster:vars]\n"
        "# gpus: why\\nof two lines\n"
        "gpus=8\n"
    )
