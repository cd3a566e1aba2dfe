"""Flags that take the nodes from Slurm: their source, and the options of sbatch."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.slurm.door import NodeSource, SchedulerFlags, SlurmSource, node_source, request
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.terminal.doors import NodesWanted

IN_JOB = {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    ("flags", "environment", "has_inventory", "source"),
    [
        (SchedulerFlags(), {}, False, NodeSource.INVENTORY),
        (SchedulerFlags(), {}, True, NodeSource.INVENTORY),
        (SchedulerFlags(), IN_JOB, False, NodeSource.HERE),
        (SchedulerFlags(), IN_JOB, True, NodeSource.HERE),
        (SchedulerFlags(scheduler="none"), IN_JOB, True, NodeSource.INVENTORY),
        (SchedulerFlags(scheduler="slurm"), IN_JOB, False, NodeSource.HERE),
        (SchedulerFlags(scheduler="slurm", partition="gpu"), {}, False, NodeSource.SUBMIT),
    ],
)
def test_the_source_of_the_nodes(
    flags: SchedulerFlags, environment: dict[str, str], has_inventory: bool, source: NodeSource
) -> None:
    assert node_source(flags, environment, has_inventory=has_inventory) is source


@pytest.mark.parametrize(
    ("flags", "environment", "has_inventory", "error"),
    [
        (SchedulerFlags(scheduler="slurm"), {}, True, "together with an inventory"),
        (SchedulerFlags(time="1:00:00"), {}, False, "--time has no effect without Slurm"),
        (SchedulerFlags(partition="gpu"), IN_JOB, False, "--partition has no effect in Slurm job 7"),
        (
            SchedulerFlags(),
            {**IN_JOB, "SLURM_STEP_NUM_TASKS": "2"},
            False,
            "srun starts pylaunch 2 times in Slurm job 7",
        ),
        (SchedulerFlags(sbatch_arg=("--mem=0",)), IN_JOB, False, "--sbatch-arg has no effect in Slurm job 7"),
        (SchedulerFlags(), {**IN_JOB, "SLURM_HET_SIZE": "2"}, False, "Slurm job 7 is heterogeneous"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    flags: SchedulerFlags, environment: dict[str, str], has_inventory: bool, error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        node_source(flags, environment, has_inventory=has_inventory)


def test_the_job_has_nodes_for_the_spares_too() -> None:
    made = request(SchedulerFlags(partition="gpu", time="1:00:00", sbatch_arg=("--mem=0",)), nodes=4, spares=1)
    assert made.nodes == 5
    assert made.options == ("--partition=gpu", "--time=1:00:00", "--mem=0")


@pytest.mark.parametrize(
    ("flags", "nodes", "error"),
    [
        (SchedulerFlags(), None, "needs the number of nodes"),
        (SchedulerFlags(), 0, "needs the number of nodes"),
        (SchedulerFlags(sbatch_arg=("mem=0",)), 1, "--sbatch-arg mem=0: expected an option of sbatch"),
        (SchedulerFlags(sbatch_arg=("--signal=USR1@60",)), 1, "Slurm would signal the agents of pylaunch"),
    ],
)
def test_requests_that_make_no_job_are_refused(flags: SchedulerFlags, nodes: int | None, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        request(flags, nodes, spares=0)


@pytest.mark.parametrize(
    ("option", "ranks"),
    [
        ("--gpus-per-node=8", 16),
        ("--gpus-per-node=h100:4", 8),
        ("--gres=gpu:h100:2", 4),
        ("--gres=tpu:8", 2),
        ("--mem=0", 2),
    ],
)
def test_a_plan_without_a_job_has_the_requested_gpus_of_each_node(
    option: str, ranks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SlurmSource(NodeSource.SUBMIT, SchedulerFlags(sbatch_arg=(option,)))
    with source.nodes(NodesWanted(None, None, 2, 0, dry_run=True), JOB) as provided:
        assert plan_run(provided.cluster, JOB, "7f3a9c01").world_size == ranks
    assert f"its options: sbatch --nodes=2 {option}\n" in capsys.readouterr().err


JOB = JobSpec(("train.py",), Framework.DIRECT, "/")
