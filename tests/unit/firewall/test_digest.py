"""The digest of the live table, which tells whether somebody changed the rules after they were confirmed."""

import json
import runpy
from collections.abc import Callable
from typing import Any

import pytest

from pylaunch.store import content

NETWORKS = [{"prefix": {"addr": "10.0.0.0", "len": 8}}, {"prefix": {"addr": "192.168.0.0", "len": 16}}, "172.16.0.1"]
"""Elements as nft 1.0.6 prints them for a set with `flags interval`, which rules of the user's own may have."""


@pytest.fixture
def digest_of() -> Callable[[list[Any]], str]:
    """The digest of a table with one set that has these elements."""
    program = content.roles_directory() / "firewall/files/firewall.py"
    live_digest = runpy.run_path(str(program), run_name="program")["live_digest"]

    def digest_of(elements: list[Any]) -> str:
        entries = [{"metainfo": {"version": "1.0.6"}}, {"set": {"name": "networks", "handle": 1, "elem": elements}}]
        answers = {"tables": "table inet pylaunch\n", "table": json.dumps({"nftables": entries})}
        live_digest.__globals__.update(run=lambda words: answers[words[words.index("list") + 1]])
        found: str = live_digest()
        return found

    return digest_of


def test_rules_of_ones_own_may_have_a_set_of_networks(digest_of: Callable[[list[Any]], str]) -> None:
    assert digest_of(NETWORKS) == digest_of(NETWORKS[::-1])
    assert digest_of(NETWORKS) != digest_of(NETWORKS[:1])
