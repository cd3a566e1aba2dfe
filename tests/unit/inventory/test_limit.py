"""Patterns of hosts and groups, as Ansible has them and with ranges."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.inventory.cluster import limited
from pylaunch.model.cluster import Cluster, Host

CLUSTER = Cluster(tuple(Host(f"gpu{number:02d}", f"10.0.0.{number}") for number in range(1, 11)))
GROUPS = {"all": ("nfs1", *CLUSTER.names), "cluster": CLUSTER.names, "rack1": ("gpu10", "gpu02"), "storage": ("nfs1",)}


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("gpu[08-10]", ("gpu08", "gpu09", "gpu10")),
        ("gpu10,gpu01", ("gpu01", "gpu10")),
        ("rack1", ("gpu02", "gpu10")),
        ("rack1,gpu05", ("gpu02", "gpu05", "gpu10")),
        ("all", CLUSTER.names),
        ("gpu*", CLUSTER.names),
        ("gpu0?,!gpu03", tuple(f"gpu{number:02d}" for number in (1, 2, 4, 5, 6, 7, 8, 9))),
        ("!gpu[02-10]", ("gpu01",)),
        ("rack1:gpu05", ("gpu02", "gpu05", "gpu10")),
        ("gpu[01-02]:!rack1", ("gpu01",)),
        ("rack1:&gpu[01-05]", ("gpu02",)),
        ("!rack*,gpu0[1-2]", ("gpu01",)),
        ("r*", ("gpu02", "gpu10")),
    ],
)
def test_a_limit_takes_hosts_and_groups_in_rank_order(limit: str, expected: tuple[str, ...]) -> None:
    assert limited(CLUSTER, limit, GROUPS).names == expected


@pytest.mark.parametrize(
    ("limit", "message", "hint"),
    [
        ("gpu[09-12]", "not in the cluster: gpu[11-12]", "did you mean gpu10 or gpu01"),
        ("rak1", "not in the cluster: rak1", "did you mean rack1?"),
        ("storage", "not in the cluster: storage", "the cluster is gpu[01-10]"),
        ("xyz", "not in the cluster: xyz", "the cluster is gpu[01-10]"),
        ("gpu[3-1]", "counts down", "hosts and groups, with ranges"),
        (",", "no host named", "the cluster is gpu[01-10]"),
        ("gpu*,!gpu11", "not in the cluster: gpu11", "did you mean gpu10 or gpu01"),
        ("node*", "not in the cluster: node*", "the cluster is gpu[01-10]"),
        ("gpu*:!all", "no host matches", "the cluster is gpu[01-10]"),
    ],
)
def test_a_limit_that_matches_nothing_is_refused_with_a_suggestion(limit: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        limited(CLUSTER, limit, GROUPS)

    assert message in caught.value.message
    assert hint in str(caught.value.hint)


def test_a_name_with_colons_is_one_name() -> None:
    cluster = Cluster((Host("fd00::1", "fd00::1"), Host("fd00::2", "fd00::2")))

    assert limited(cluster, "!fd00::1", {}).names == ("fd00::2",)
