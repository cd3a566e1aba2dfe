from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from pylaunch.errors import LabError
from pylaunch.features.lab.cluster.network import POOL, next_subnet


def test_subnets_are_given_out_in_turn_so_that_a_new_lab_has_not_the_addresses_of_the_last() -> None:
    assert next_subnet(-1, []) == IPv4Network("10.213.0.0/24")
    assert next_subnet(4, []) == IPv4Network("10.213.5.0/24")
    assert next_subnet(255, []) == IPv4Network("10.213.0.0/24")


def test_what_this_machine_routes_already_is_passed_over() -> None:
    taken = [IPv4Network("10.213.0.0/23"), IPv4Network("10.213.2.9/32"), IPv4Network("192.0.2.0/24")]
    assert next_subnet(-1, taken) == IPv4Network("10.213.3.0/24")


def test_a_machine_that_routes_all_of_them_gets_an_error_that_says_by_what() -> None:
    with pytest.raises(LabError, match=str(POOL)) as refused:
        next_subnet(-1, [IPv4Network("10.0.0.0/8")])
    assert refused.value.evidence == ("10.0.0.0/8",)
