import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Agreement, Cluster, Host
from pylaunch.runs.prepare.agreement import NodeDifference, judge

SAME = {"kernel series": "6.1", "gpu driver": "", "nccl": "2.27.3"}


def cluster(policy: Agreement, **other: Agreement) -> Cluster:
    names = ("n1", "n2", "n3")
    return Cluster(tuple(Host(name, name, attestation=other.get(name, policy)) for name in names))


def nodes(**odd: dict[str, str]) -> dict[str, dict[str, str]]:
    return {name: {**SAME, **odd.get(name, {})} for name in ("n1", "n2", "n3")}


def test_nodes_that_agree_cause_no_warning() -> None:
    assert judge(cluster(Agreement.REFUSE), nodes()) == ()


def test_a_node_that_differs_causes_a_warning_with_a_hint() -> None:
    assert judge(cluster(Agreement.WARN), nodes(n2={"nccl": "2.26.2"})) == (
        NodeDifference("nccl: 2.26.2 on n2; 2.27.3 on n[1,3]", "pylaunch provision --roles python_env --limit n2"),
    )


def test_with_the_policy_refuse_nothing_starts_and_all_differences_are_listed() -> None:
    with pytest.raises(ClusterNotReadyError) as caught:
        judge(cluster(Agreement.REFUSE), nodes(n2={"nccl": ""}, n3={"gpu driver": "565.57.01"}))
    assert caught.value.evidence == (
        "gpu driver: 565.57.01 on n3; none on n[1-2]",
        "nccl: none on n2; 2.27.3 on n[1,3]",
    )
    assert caught.value.hint is not None
    assert "--limit n2" in caught.value.hint


def test_a_host_whose_policy_is_off_is_not_compared() -> None:
    assert judge(cluster(Agreement.REFUSE, n2=Agreement.OFF), nodes(n2={"nccl": "2.26.2"})) == ()


def test_an_unreadable_value_is_a_difference() -> None:
    (difference,) = judge(cluster(Agreement.WARN), nodes(n1={"gpu driver": "unreadable: Input/output error"}))
    assert "unreadable: Input/output error on n1" in difference.text
