"""Recorded answers of ansible-inventory, and the clusters and errors that pylaunch reads in them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pylaunch.inventory import load
from pylaunch.inventory.cluster import Listing, read_hosts, with_loopback
from pylaunch.inventory.load import explained
from pylaunch.model.cluster import Cluster

CASES = Path(__file__).parents[2] / "cases"


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(yaml.safe_load(file.read_text()), id=file.stem) for file in sorted((CASES / kind).glob("*.yaml"))
    ]


@pytest.mark.parametrize("case", cases("inventories"))
def test_a_recorded_inventory_gives_these_hosts_in_this_order_and_these_complaints(case: dict[str, Any]) -> None:
    hosts, complaints = read_hosts(Listing.parse(case["listing"]))

    assert [host.name for host in hosts] == case["hosts"]
    assert explained(complaints) == case["complaints"]


@pytest.mark.parametrize(
    ("of_n2", "addresses"),
    [
        ({"ansible_connection": "local"}, ["127.0.0.1", "127.0.0.1"]),
        ({"ansible_connection": "local", "ansible_host": "127.0.0.3"}, ["127.0.0.1", "127.0.0.3"]),
        ({}, ["n1", "n2"]),
    ],
)
def test_directories_of_this_machine_meet_on_loopback_unless_they_have_another_address(
    of_n2: dict[str, str], addresses: list[str]
) -> None:
    n1 = {"ansible_connection": "local", "pylaunch_node_root": "/tmp/n1"}
    listing = {
        "_meta": {"hostvars": {"n1": n1, "n2": {"pylaunch_node_root": "/tmp/n2", **of_n2}}},
        "all": {"hosts": ["n1", "n2"]},
    }
    hosts, complaints = read_hosts(Listing.parse(json.dumps(listing)))
    found = with_loopback(Cluster(hosts))
    assert ([host.address for host in found.hosts], complaints) == (addresses, [])


def test_two_directories_of_one_root_are_refused_by_what_is_written() -> None:
    local = {"ansible_connection": "local"}
    listing = {"_meta": {"hostvars": {"n1": local, "n2": local}}, "all": {"hosts": ["n1", "n2"]}}
    _, (complaint,) = read_hosts(Listing.parse(json.dumps(listing)))
    assert (complaint.host, complaint.key) == ("n2", None), "no line sets the address"


@pytest.mark.parametrize("case", cases("inventory_refusals"))
def test_a_source_that_ansible_cannot_parse_is_reported_with_the_words_of_its_parser(case: dict[str, Any]) -> None:
    assert load.unparsed(case["stderr"], "/inventory") == case["evidence"]


def test_parts_of_an_inventory_that_ansible_would_ignore_are_reported() -> None:
    stderr = """\
[WARNING]: Skipping unexpected key (hots) in group (cluster), only "vars", "children" and "hosts" are valid
[WARNING]: Found duplicate mapping key 'n1'.
Origin: /inventory/cluster.yml:4:5

2   hosts:
3     n1: {gpus: 8}
4     n1: {gpus: 4}
      ^ column 5

Using last defined value only.

[WARNING]: Invalid characters were found in group names but not replaced, use -vvvv to see details
"""
    assert load.ignored(stderr, "/inventory") == [
        "cluster.yml:4: duplicate mapping key 'n1'",
        'Skipping unexpected key (hots) in group (cluster), only "vars", "children" and "hosts" are valid',
    ]
