import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.terminal.flags.selection import chosen, nodes_of, parse_ranks

HOSTS = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}") for number in range(1, 5))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("train.py",), Framework.TORCHRUN, "/w", ranks_per_node=2), "7f3a9c01")


@pytest.mark.parametrize(("text", "ranks"), [("3", (3,)), ("0-3,7", (0, 1, 2, 3, 7)), ("7, 1-2,1", (1, 2, 7))])
def test_ranks_by_set(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_ranks(text, PLAN) == ranks


@pytest.mark.parametrize("text", ["", "x", "3-1", "-1", "1-", "8", "0-8"])
def test_other_ranks_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected ranks such as|has ranks 0 … 7"):
        parse_ranks(text, PLAN)


def test_nodes_by_set() -> None:
    assert [node.host.name for node in nodes_of("gpu[03-04],gpu01", PLAN)] == ["gpu01", "gpu03", "gpu04"]
    with pytest.raises(UsageError, match=r"has no node gpu09; it runs on gpu\[01-04\]"):
        nodes_of("gpu01,gpu09", PLAN)


def test_ranks_and_nodes_together_select_their_intersection() -> None:
    nodes, streams = chosen(PLAN, "0-5", "gpu[02-04]", launcher=False)
    assert [node.host.name for node in nodes] == ["gpu02", "gpu03"]
    assert {"2.out", "2.err", "5.err"} <= set(streams)
    with pytest.raises(UsageError, match="no rank of 0-1 runs on gpu04"):
        chosen(PLAN, "0-1", "gpu04", launcher=False)


def test_launchers_are_chosen_by_node_alone() -> None:
    nodes, streams = chosen(PLAN, None, "gpu04", launcher=True)
    assert ([node.host.name for node in nodes], streams) == (["gpu04"], ["launcher.out", "launcher.err"])
    with pytest.raises(UsageError, match="--launcher"):
        chosen(PLAN, "0", None, launcher=True)
