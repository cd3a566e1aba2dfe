from __future__ import annotations

from pylaunch.features.lab.cluster.cluster_file import with_host_keys

FOREIGN = """\
# mine
gpu01,10.213.9.99 ssh-ed25519 AAAA
@cert-authority *.example ssh-rsa BBBB
|1|c2FsdA==|aGFzaA== ssh-rsa CCCC
"""


def test_only_the_lines_of_the_lab_s_own_addresses_are_replaced() -> None:
    before = FOREIGN + "10.213.9.11 ssh-ed25519 OLD\n"
    after = with_host_keys(before, {"10.213.9.11": "ssh-ed25519 NEW", "10.213.9.12": "ssh-ed25519 SECOND"})
    assert after == FOREIGN + "10.213.9.11 ssh-ed25519 NEW\n10.213.9.12 ssh-ed25519 SECOND\n"


def test_addresses_that_are_gone_are_forgotten_and_nothing_else() -> None:
    assert with_host_keys(FOREIGN + "10.213.9.11 ssh-ed25519 OLD\n", {"10.213.9.11": None}) == FOREIGN
