"""Output of squeue, scontrol and sbatch, recorded from Slurm 22.05."""

import pytest

from pylaunch.model.slurm_job import JobDetails, JobState
from pylaunch.transport.slurm import commands

NODE = (
    "NodeName={0} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=7.36 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=(null) NodeAddr={1} NodeHostName={0} Version=22.05.8 OS=Linux 6.18 #1 SMP "
    "PREEMPT_DYNAMIC @0  RealMemory=2000 AllocMem=0 FreeMem=18927 Sockets=4 Boards=1 State={2} ThreadsPerCore=1 "
    "TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=lab \n"
)
JOB = (
    "JobId=20 JobName=no-shell UserId=root(0) JobState=RUNNING Reason=None NodeList=n[1-3] BatchHost=n1 NumNodes=3 "
    "JOB_GRES={0}   Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES={1} Nodes=n3 CPU_IDs=0-1 Mem=0 GRES={2} MinCPUsNode=1 WorkDir=/\n"
)


CANCELLED = JobState("CANCELLED", nodes="n[1-2]")
RUNNING = JobState("RUNNING", nodes="n3")


@pytest.mark.parametrize(
    ("output", "states"),
    [
        ("14|CANCELLED|None|2026-11-22T18:41:33|n[1-2]\n", {"14": CANCELLED}),
        ("16|RUNNING|None|2026-11-22T18:42:16|n3\n", {"16": RUNNING}),
        ("13|PENDING|Resources|N/A|\n", {"13": JobState("PENDING", "Resources")}),
        ("13|PENDING|None|Unknown|\n", {"13": JobState("PENDING")}),
        (
            "13|PENDING|Priority|2026-11-22T19:40:30|\n",
            {"13": JobState("PENDING", "Priority", starts="2026-11-22T19:40:30")},
        ),
        ("", {}),
        ("some words of a site\n", {}),
    ],
)
def test_the_states_of_jobs(output: str, states: dict[str, JobState]) -> None:
    assert commands.states_in(output) == states


@pytest.mark.parametrize(
    ("output", "job"),
    [
        ("19\n", "19"),
        ("19;cluster\n", "19"),
        ("sbatch: a notice of the site\n20\n", "20"),
        ("", None),
        ("Submitted\n", None),
        ("20 x", None),
    ],
)
def test_the_id_of_a_submitted_job(output: str, job: str | None) -> None:
    assert commands.submitted_job(output) == job


@pytest.mark.parametrize("state", ["DOWN", "IDLE*", "DOWN*+DRAIN", "IDLE+NOT_RESPONDING", "COMPLETING*"])
def test_a_node_that_slurmctld_does_not_reach_does_not_answer(state: str) -> None:
    (node,) = commands.nodes_in(NODE.format("n1", "10.0.0.1", state))
    assert not node.answers


def test_the_number_of_gpus_of_a_job_on_each_node() -> None:
    assert commands.gpus_of_nodes(JOB.format("(null)", "", "")) == {}
    assert commands.gpus_of_nodes(JOB.format("shard:1", "shard:1(IDX:0)", "")) == {}
    uneven = JOB.format("gpu:4", "gpu:1(IDX:0)", "gpu:a100:2(IDX:0-1)")
    assert commands.gpus_of_nodes(uneven) == {"n1": 1, "n2": 1, "n3": 2}
    assert commands.gpus_of_nodes(JOB.format("gpu:2", "", "nic:1,gpu:2(IDX:0-1)")) == {"n3": 2}
    types = "gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:2)"
    assert commands.gpus_of_nodes(JOB.format("gpu:3", "", types)) == {"n3": 3}


@pytest.mark.parametrize(
    ("requested", "shares"),
    [
        ("TresPerJob=gres:gpu:3", True),
        ("TresPerTask=gres:gpu:1", True),
        ("TresPerNode=gres:gpu:2", False),
        ("TresPerJob=gres:license:1", False),
        ("", False),
    ],
)
def test_gpus_in_total_or_by_task_must_be_requested_by_steps(requested: str, shares: bool) -> None:
    job = JOB.format("gpu:3", "", "gpu:2(IDX:0-1)").replace(" MinCPUs", f" {requested} MinCPUs")
    assert commands.shares_gpus(job) is shares


def test_a_job_has_its_state_its_nodes_and_its_gpus() -> None:
    details = commands.details_in(JOB.format("gpu:2", "", "gpu:2(IDX:0-1)"), "20")
    assert details == JobDetails(JobState("RUNNING", nodes="n[1-3]"), {"n3": 2})
    assert details.gpu_requests(["n1", "n3"]) == {"n1": None, "n3": None}
    assert JobDetails(RUNNING, {"n3": 2}, shares_gpus=True).gpu_requests(["n1", "n3"]) == {"n1": 0, "n3": 2}
    assert JobDetails(RUNNING).gpu_requests(["n1"]) == {}


def test_devices_differ_by_node_and_a_node_whose_devices_have_no_numbers_is_missing() -> None:
    output = "n1|0,1\nn2|3\nn3|\nn4|NoDevFiles\nMIG|MIG-4f5\nnoise\n"
    assert commands.visible_devices(output) == {"n1": (0, 1), "n2": (3,), "n3": (), "n4": ()}
