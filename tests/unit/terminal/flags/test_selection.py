import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.terminal.flags.resolve_run import chosen, parse_ranks

HOSTS = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}") for number in range(1, 5))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("train.py",), Framework.TORCHRUN, "/w", ranks_per_node=2), "7f3a9c01")


@pytest.mark.parametrize(("text", "ranks"), [("3", (3,)), ("0-3,7", (0, 1, 2, 3, 7)), ("7, 1-2,1", (1, 2, 7))])
def test_ranks_by_set(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_ranks(text, PLAN) == ranks


@pytest.mark.parametrize("text", ["", "x", "3-1", "-1", "1-", "8", "0-8"])
def test_other_ranks_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected ranks such as|has ranks 0 … 7") as refused:
        parse_ranks(text, PLAN)
    assert refused.value.hint == "pylaunch logs 7f3a9c01 --rank 0-7"


def test_ranks_and_nodes_together_select_their_intersection() -> None:
    nodes, streams = chosen(PLAN, "0-5", "gpu[02-04]", launcher=False)
    assert [node.host.name for node in nodes] == ["gpu02", "gpu03"]
    assert {"2.out", "2.err", "5.err"} <= set(streams)
    with pytest.raises(UsageError, match="no rank of 0-1 runs on gpu04"):
        chosen(PLAN, "0-1", "gpu04", launcher=False)
