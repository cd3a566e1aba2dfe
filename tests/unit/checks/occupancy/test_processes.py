"""Processes that are leftovers, at work, or of other users: judged by their ancestors."""

from typing import Any, cast

import pytest

from pylaunch.checks.occupancy.look import occupancy
from pylaunch.protocol.readings.hosts import ProcessReading

ME, OTHER = 1000, 1001
INIT = {"pid": 1, "parent": 0, "uid": 0, "is_reaper": True}
LAUNCHER = {"pid": 100, "parent": 50, "ports": [29500]}
RANK = {"pid": 101, "parent": 100, "rank": True, "devices": ["/dev/nvidia0"]}
LOADER = {"pid": 102, "parent": 101, "rank": True}


def process(**facts: Any) -> ProcessReading:
    row: Any = {
        "started": 7, "began": 0.0, "uid": ME, "user": "anna", "command": "python train.py", "cwd": "/home/anna",
        "rank": False, "run": None, "run_is_live": False, "devices": [], "ports": [], "is_terminal": False,
        "is_reaper": False, "service": "", "container": "", **facts,
    }  # fmt: skip
    return cast(ProcessReading, row)


def divided(*rows: dict[str, Any]) -> tuple[list[int], list[int], list[int]]:
    found = occupancy({"uid": ME, "processes": [process(**row) for row in rows], "listeners": [], "unseen": []})
    return tuple([each.pid for each in part] for part in (found.stale, found.at_work, found.foreign))  # type: ignore[return-value]


def test_ranks_of_a_launcher_that_survived_its_terminal_are_at_work_and_so_is_it() -> None:
    assert divided(INIT, {**LAUNCHER, "parent": 1}, RANK, LOADER) == ([], [100, 101, 102], [])


def test_ranks_of_a_killed_launcher_are_left_over_with_all_that_they_started() -> None:
    helper = {"pid": 103, "parent": 102}
    assert divided(INIT, {**RANK, "parent": 1}, LOADER, helper) == ([101, 102, 103], [], [])


def test_processes_of_a_dead_run_are_left_over_without_the_variables_of_a_rank_as_those_of_ray_are() -> None:
    node = {"pid": 70, "parent": 1, "run": "7f3a"}
    assert divided(INIT, node, {"pid": 71, "parent": 70, "run": "7f3a"}) == ([70, 71], [], [])
    assert divided(INIT, {**node, "run_is_live": True}) == ([], [], [])


def test_processes_adopted_by_the_user_manager_are_left_over() -> None:
    manager = {"pid": 30, "parent": 1, "is_reaper": True}
    assert divided(INIT, manager, {**RANK, "parent": 30}) == ([101], [], [])


def test_a_launcher_without_ranks_that_keeps_the_port_is_left_over() -> None:
    assert divided(INIT, {**LAUNCHER, "parent": 1}) == ([100], [], [])


@pytest.mark.parametrize(
    "facts",
    [
        {"service": "notebook.service"},
        {"run": "7f3a", "run_is_live": True},
        {"uid": OTHER},
    ],
)
def test_processes_of_a_service_a_live_run_or_another_user_are_no_leftovers(facts: dict[str, Any]) -> None:
    assert divided(INIT, {**RANK, "parent": 1, **facts})[0] == []


def test_a_program_in_which_terminals_are_open_is_at_work_whatever_variables_it_was_started_with() -> None:
    multiplexer = {"pid": 60, "parent": 1, "rank": True}
    shell = {"pid": 61, "parent": 60, "rank": True, "is_terminal": True}
    assert divided(INIT, multiplexer, shell)[0] == []


def test_a_container_of_an_engine_is_at_work_with_the_program_that_keeps_it_and_that_of_a_dead_run_is_not() -> None:
    conmon = {"pid": 60, "parent": 1, "ports": [29500]}
    inside = {"pid": 61, "parent": 60, "devices": ["/dev/nvidia0"], "container": "podman container e0e504da6284"}
    assert divided(INIT, conmon, inside) == ([], [60, 61], [])
    assert divided(INIT, {**inside, "parent": 1, "rank": True}, {"pid": 62, "parent": 61}) == ([], [61], [])
    rank = {**inside, "parent": 1, "run": "7f3a", "container": "a container"}
    renamed = {"pid": 62, "parent": 61, "container": "a container"}
    assert divided(INIT, rank, renamed) == ([61, 62], [], []), "its environment is overwritten"


def test_other_users_are_named_with_what_they_hold_and_never_left_over() -> None:
    theirs = {"pid": 200, "parent": 1, "uid": OTHER, "user": "bert", "devices": ["/dev/nvidia3"], "rank": True}
    below = {"pid": 201, "parent": 200, "uid": OTHER, "user": "bert"}
    found = occupancy(
        {
            "uid": ME, "processes": [process(**row) for row in (INIT, theirs, below)],
            "listeners": [{"port": 29500, "user": "bert"}], "unseen": ["bert"],
        }
    )  # fmt: skip
    assert found.stale == ()
    assert [f"{each}: {each.uses}" for each in found.foreign] == [
        "pid 200 (python train.py) of bert: holds /dev/nvidia3, has the variables of a rank"
    ]
    assert found.hidden_listeners == ((29500, "bert"),)
    assert found.unseen == ("bert",)


def test_an_ancestor_of_another_users_process_is_never_left_over() -> None:
    runuser = {"pid": 105, "parent": 1, "rank": True}
    theirs = {"pid": 106, "parent": 105, "uid": OTHER, "rank": True}
    assert divided(INIT, runuser, theirs) == ([], [105], [106])
    assert divided(INIT, {**RANK, "parent": 1}, LOADER, {"pid": 107, "parent": 102, "uid": OTHER}) == (
        [],
        [101, 102],
        [],
    )


def test_a_process_that_hides_its_environment_belongs_to_the_run_of_its_ancestors() -> None:
    supervisor = {"pid": 70, "parent": 1}
    rank = {**RANK, "parent": 70, "run": "7f3a", "run_is_live": True}
    renamed = {"pid": 103, "parent": 101, "devices": ["/dev/nvidia0"]}
    found = occupancy(
        {"uid": ME, "processes": [process(**row) for row in (INIT, supervisor, rank, renamed)],
         "listeners": [], "unseen": []}
    )  # fmt: skip
    assert [(each.pid, each.run) for each in found.at_work] == [(101, "7f3a"), (103, "7f3a")]
    assert found.stale == ()
