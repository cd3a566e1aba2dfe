from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.base.dataclass import replace
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec, RolePart
from pylaunch.model.node_record import NotARecordError, pack, unpack
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.runs.all_runs import Discovery
from pylaunch.store import runs
from pylaunch.store.runs import recorded_parts
from pylaunch.terminal.flags import resolve_run
from pylaunch.terminal.flags.resolve_run import find, find_each

CLUSTER = Cluster((Host("n1", "10.0.0.1"),))
SERVER = RolePart("0b5e0000", "rl", "server", "server.0", 1)
TRAINER = RolePart("0b5e0000", "rl", "trainer", "trainer")


def plan(run: str, part: RolePart | None) -> RunPlan:
    return plan_run(CLUSTER, JobSpec(("a.py",), Framework.COMMAND, "/w", part=part), run)


def recorded(run: str, part: RolePart | None, *, is_foreign: bool = False) -> None:
    runs.begin(plan(run, part), "0123456789abcdef", now=100.0, is_foreign=is_foreign)


def test_a_job_stands_for_its_runs_those_that_stop_first_first() -> None:
    recorded("7f3a9c01", SERVER)
    recorded("7f3a9c02", TRAINER)
    recorded("0b000000", None)
    assert [each.plan.run for each in find_each("0b5e", None)] == ["7f3a9c02", "7f3a9c01"]
    assert [each.plan.run for each in find_each("7f3a9c02", None)] == ["7f3a9c02"]


def test_hosts_are_asked_once_for_a_run_that_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(cluster: Cluster) -> Discovery:
        asked.append(cluster)
        return Discovery((), frozenset(), {})

    monkeypatch.setattr(resolve_run, "load_cluster", lambda _: CLUSTER)
    monkeypatch.setattr(resolve_run, "discovered", ask)
    with pytest.raises(UsageError, match="7f3a9c09"):
        find_each("7f3a9c09", Path("cluster.ini"))
    assert asked == [CLUSTER]


@pytest.mark.parametrize("lookup", [find, find_each])
def test_a_beginning_of_a_run_and_of_a_job_is_refused_by_every_verb(lookup: Callable[[str, None], object]) -> None:
    recorded("7f3a9c01", SERVER)
    recorded("0b000000", None)
    with pytest.raises(UsageError, match="0b begins a run and a job"):
        lookup("0b", None)


@pytest.mark.parametrize("is_foreign", [False, True])
def test_what_nodes_gave_the_id_of_a_run_or_job_that_was_started_here_does_not_take_its_place(is_foreign: bool) -> None:
    recorded("0b5e0000", None, is_foreign=is_foreign)
    recorded("7f3a9c01", SERVER, is_foreign=not is_foreign)
    assert [each.plan.run for each in find_each("0b5e0000", None)] == ["7f3a9c01" if is_foreign else "0b5e0000"]


def test_nodes_know_the_part_and_add_no_run_to_a_job_that_was_started_here() -> None:
    part = unpack(pack(plan("7f3a9c01", SERVER), "0123456789abcdef", 100.0), CLUSTER).plan.job.part
    assert part == SERVER
    recorded("7f3a9c03", TRAINER, is_foreign=True)
    assert recorded_parts() == {"7f3a9c03": TRAINER}
    recorded("7f3a9c01", SERVER)
    assert recorded_parts() == {"7f3a9c01": SERVER}


def test_a_part_of_a_node_that_is_no_part_is_no_record() -> None:
    with pytest.raises(NotARecordError):
        unpack(pack(plan("7f3a9c01", replace(SERVER, job="../x")), "0123456789abcdef", 100.0), CLUSTER)
