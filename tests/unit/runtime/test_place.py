from pathlib import Path

import pytest

from pylaunch.runtime.place import LaunchError, Place, first_host, place, tasks_per_node

RECORDED = Path(__file__).parents[2] / "cases" / "launchers"
CONTRACT = {
    "RANK": "5", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1",
    "MASTER_PORT": "29600",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "4097", "SLURM_STEP_NODELIST": "gpu[003-004,7],login", "SLURM_NTASKS": "6", "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "4,2", "SLURM_NODEID": "1",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
}  # fmt: skip
OPEN_MPI_5 = {
    **{name: value for name, value in OPEN_MPI.items() if name.startswith("OMPI_COMM")},
    "PMIX_NAMESPACE": "prterun-head-1-23604@1", "OMPI_VERSION": "5.0.11",
}  # fmt: skip
URI_OF_4_1_4 = "1657339904.0;tcp://192.0.2.2,10.213.33.1,10.213.35.1:56787;tcp6://[fd00::2]:44541"
SLURM_OF_ORTED = {**SLURM, "SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0"}
"""Variables of the daemon that mpirun starts on each node of an allocation, with srun."""


@pytest.mark.parametrize(
    ("env", "address", "port", "launcher"),
    [
        (CONTRACT, "n1", 29600, "variables"),
        ({**CONTRACT, "TORCHELASTIC_RUN_ID": "x"}, "n1", 29600, "torchrun"),
        ({**CONTRACT, "TORCHELASTIC_RUN_ID": "x", "PYLAUNCH_RANK": "5"}, "n1", 29600, "pylaunch"),
        (SLURM, "gpu003", 61441, "slurm"),
        ({**SLURM, "MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "1234"}, "10.0.0.9", 1234, "slurm"),
        (OPEN_MPI, "10.96.0.1", 29500, "openmpi"),
        ({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "1.0;tcp6://[fe80::b9b,fd00::2]:43370"}, "fe80::b9b", 29500, "openmpi"),
        ({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": URI_OF_4_1_4}, "192.0.2.2", 29500, "openmpi"),
        (
            {**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:567;tcp6://[fd00::2]:44"},
            "10.0.0.1",
            29500,
            "openmpi",
        ),
        (OPEN_MPI_5, "head-1", 29500, "openmpi"),
        ({**OPEN_MPI_5, "PMIX_NAMESPACE": "prte-head-1-7@3", "MASTER_PORT": "4000"}, "head-1", 4000, "openmpi"),
        ({**OPEN_MPI, **SLURM_OF_ORTED}, "10.96.0.1", 29500, "openmpi"),
    ],
)
def test_the_same_place_is_read_from_every_launcher(
    env: dict[str, str], address: str, port: int, launcher: str
) -> None:
    assert place(env) == Place(5, 6, 1, 2, address, port, launcher)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("slurm-22.05-task-per-rank", Place(3, 5, 0, 1, "n1", 61445, "slurm")),
        ("slurm-22.05-task-per-node", Place(1, 2, 0, 1, "n1", 61444, "slurm")),
        ("slurm-22.05-heterogeneous", Place(4, 5, 0, 1, "n1", 61442, "slurm")),
        ("slurm-22.05-batch-script", Place(0, 1, 0, 1, "", 0, "none")),
        ("openmpi-4.1.4", Place(1, 3, 1, 2, "10.0.0.9", 29500, "openmpi")),
        ("openmpi-5.0.11", Place(1, 3, 1, 2, "head", 29500, "openmpi")),
    ],
)
def test_places_in_recorded_environments(name: str, expected: Place) -> None:
    lines = (RECORDED / f"{name}.env").read_text().splitlines()
    assert place(dict(line.split("=", 1) for line in lines)) == expected


def test_without_a_launcher_the_world_is_one() -> None:
    assert place({"SLURM_JOB_ID": "7"}) == Place(0, 1, 0, 1, "", 0, "none")


def test_a_slurm_job_with_one_task_on_each_node_is_a_world_of_its_nodes() -> None:
    env = {**SLURM, "SLURM_NTASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "0", "SLURM_NODEID": "3"}
    env["SLURM_STEP_TASKS_PER_NODE"] = "1(x4)"
    assert place(env) == Place(3, 4, 0, 1, "gpu003", 61441, "slurm")


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
    ],
)
def test_variables_in_part_or_in_contradiction_are_named(changes: dict[str, str | None], message: str) -> None:
    env = {name: value for name, value in {**CONTRACT, **changes}.items() if value is not None}
    with pytest.raises(LaunchError, match=message):
        place(env)


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [("n1", "n1"), ("n1,n2", "n1"), ("n[1-4]", "n1"), ("gpu[003,7]-ib,x", "gpu003-ib"), ("a,b[1-2]", "a")],
)
def test_the_first_host_of_a_slurm_node_list(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host


@pytest.mark.parametrize(
    ("text", "counts"), [("4(x2),1", [4, 4, 1]), ("3", [3]), ("", []), ("many", []), ("2,1(x2)", [2, 1, 1])]
)
def test_the_ranks_on_each_node_of_a_slurm_step(text: str, counts: list[int]) -> None:
    assert tasks_per_node(text) == counts
