import pytest

from pylaunch.runtime.place import LaunchError, Place, place

CONTRACT = {
    "RANK": "5", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1",
    "MASTER_PORT": "29600",
}  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "launcher"),
    [
        ({}, "variables"),
        ({"TORCHELASTIC_RUN_ID": "x"}, "torchrun"),
        ({"TORCHELASTIC_RUN_ID": "x", "PYLAUNCH_RANK": "5"}, "pylaunch"),
    ],
)
def test_the_same_place_is_read_from_every_launcher(variables: dict[str, str], launcher: str) -> None:
    assert place({**CONTRACT, **variables}) == Place(5, 6, 1, 2, "n1", 29600, launcher)


def test_without_a_launcher_the_world_is_one() -> None:
    assert place({"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "1"}) == Place(0, 1, 0, 1, "", 0, "none")


def test_the_ranks_of_deepspeed_s_launcher_on_a_node_are_counted() -> None:
    env = {name: value for name, value in CONTRACT.items() if name != "LOCAL_WORLD_SIZE"}
    assert place({**env, "LOCAL_SIZE": "2"}) == place(CONTRACT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"WORLD_SIZE": None}, "RANK is set and WORLD_SIZE is not"),
        ({"RANK": "x"}, "RANK: expected a whole number, got 'x'"),
        ({"RANK": "6"}, "RANK=6 is out of range for WORLD_SIZE=6"),
        ({"MASTER_ADDR": None}, "MASTER_ADDR is not set"),
        ({"LOCAL_RANK": None}, "LOCAL_RANK is not set"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT: expected a whole number"),
        ({"RANK": None, "WORLD_SIZE": None, "SLURM_STEP_NUM_TASKS": "6"}, "SLURM_STEP_NUM_TASKS is 6 and RANK is not"),
        ({"RANK": None, "WORLD_SIZE": None, "OMPI_COMM_WORLD_SIZE": "6"}, "OMPI_COMM_WORLD_SIZE is 6 and RANK is not"),
    ],
)
def test_variables_in_part_or_in_contradiction_are_named(changes: dict[str, str | None], message: str) -> None:
    env = {name: value for name, value in {**CONTRACT, **changes}.items() if value is not None}
    with pytest.raises(LaunchError, match=message):
        place(env)
