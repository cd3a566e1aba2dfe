"""Flags that take the nodes from Slurm: their source, and the options of sbatch."""

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.slurm.flags import NodeSource, SchedulerFlags, jobs_here, node_source, nodes_here, request
from pylaunch.features.slurm.job_here import SlurmSource
from pylaunch.inventory.settings import Settings
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run
from pylaunch.terminal.doors import NodesWanted

NONE = Settings()
IN_JOB = {"SLURM_JOB_ID": "7"}


@pytest.mark.parametrize(
    ("flags", "settings", "environment", "has_inventory", "source"),
    [
        (SchedulerFlags(), NONE, {}, False, NodeSource.INVENTORY),
        (SchedulerFlags(), NONE, {}, True, NodeSource.INVENTORY),
        (SchedulerFlags(), NONE, IN_JOB, False, NodeSource.HERE),
        (SchedulerFlags(), NONE, IN_JOB, True, NodeSource.HERE),
        (SchedulerFlags(scheduler="none"), NONE, IN_JOB, True, NodeSource.INVENTORY),
        (SchedulerFlags(scheduler="slurm"), NONE, IN_JOB, False, NodeSource.HERE),
        (SchedulerFlags(scheduler="slurm", partition="gpu"), NONE, {}, False, NodeSource.SUBMIT),
        (SchedulerFlags(), Settings(scheduler="slurm"), {}, False, NodeSource.SUBMIT),
        (SchedulerFlags(), Settings(scheduler="slurm"), {}, True, NodeSource.INVENTORY),
        (SchedulerFlags(), Settings(scheduler="none"), {}, False, NodeSource.INVENTORY),
        (SchedulerFlags(scheduler="none"), Settings(scheduler="slurm"), {}, False, NodeSource.INVENTORY),
    ],
)
def test_the_source_of_the_nodes(
    flags: SchedulerFlags, settings: Settings, environment: dict[str, str], has_inventory: bool, source: NodeSource
) -> None:
    assert node_source(flags, settings, environment, has_inventory=has_inventory) is source


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
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    flags: SchedulerFlags, environment: dict[str, str], has_inventory: bool, error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        node_source(flags, NONE, environment, has_inventory=has_inventory)


def test_the_job_of_this_shell_has_an_id_for_each_component() -> None:
    assert jobs_here({}) == ()
    assert jobs_here(IN_JOB) == ("7",)
    assert jobs_here({**IN_JOB, "SLURM_HET_SIZE": "2"}) == ("7+0", "7+1")
    assert jobs_here({"SLURM_JOB_ID": "8", "SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_0": "7"}) == ("7+0", "7+1")


def test_the_nodes_of_the_job_of_this_shell_are_listed_by_component() -> None:
    assert nodes_here(IN_JOB) == ()
    assert nodes_here({**IN_JOB, "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NODELIST": "n[1-2]"}) == ("n[1-2]",)
    parts = {"SLURM_JOB_NODELIST_HET_GROUP_0": "n1", "SLURM_JOB_NODELIST_HET_GROUP_1": "n[2-3]"}
    assert nodes_here({"SLURM_JOB_NODELIST": "n1", **parts}) == ("n1", "n[2-3]")


def test_the_job_has_nodes_for_the_spares_too_and_flags_win_over_settings() -> None:
    flags = SchedulerFlags(time="1:00:00", sbatch_arg=("--mem=0",))
    settings = Settings(slurm={"time": "2:00:00", "partition": "gpu"})
    made = request(flags, settings, nodes=4, spares=1)
    assert made.nodes == 5
    assert made.options == ("--partition=gpu", "--time=1:00:00", "--mem=0")


def test_options_of_the_settings_are_given_to_sbatch() -> None:
    settings = Settings(slurm={"sbatch-arg": ["--mem=0", "--exclusive"], "time": 90})
    made = request(SchedulerFlags(), settings, nodes=1, spares=0)
    assert made.options == ("--time=90", "--mem=0", "--exclusive")


@pytest.mark.parametrize(
    ("flags", "settings", "nodes", "error"),
    [
        (SchedulerFlags(), NONE, None, "needs the number of nodes"),
        (SchedulerFlags(), NONE, 0, "needs the number of nodes"),
        (SchedulerFlags(), Settings(slurm={"partitoin": "gpu"}), 1, "unknown key: partitoin"),
        (SchedulerFlags(), Settings(slurm={"time": True}), 1, "time: expected a text or a number"),
        (SchedulerFlags(), Settings(slurm={"sbatch-arg": "--mem=0"}), 1, "sbatch-arg: expected a list"),
        (SchedulerFlags(sbatch_arg=("mem=0",)), NONE, 1, "--sbatch-arg mem=0: expected an option of sbatch"),
    ],
)
def test_requests_that_make_no_job_are_refused(
    flags: SchedulerFlags, settings: Settings, nodes: int | None, error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        request(flags, settings, nodes, spares=0)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("--signal=USR1@60", "Slurm would signal the agents of pylaunch, not the ranks"),
        ("--requeue", "Slurm would start the agents of the job again, and no controller with them"),
    ],
)
def test_options_for_jobs_with_their_controller_inside_are_refused(option: str, error: str) -> None:
    with pytest.raises(UsageError, match=error) as refused:
        request(SchedulerFlags(sbatch_arg=(option,)), NONE, 2, 0)
    assert refused.value.hint is not None
    assert "pylaunch help slurm" in refused.value.hint


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
    source = SlurmSource(NodeSource.SUBMIT, SchedulerFlags(sbatch_arg=(option,)), NONE)
    with source.nodes(NodesWanted(None, None, 2, 0, dry_run=True), JOB) as provided:
        assert plan_run(provided.cluster, JOB, "7f3a9c01").world_size == ranks
    assert f"its options: sbatch --nodes=2 {option}\n" in capsys.readouterr().err


CLUSTER = Cluster((Host("n2", "10.0.0.2"),))
JOB = JobSpec(("train.py",), Framework.DIRECT, "/")
