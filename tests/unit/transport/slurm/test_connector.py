"""Command lines of srun depend on nothing that this process inherited from Slurm."""

import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Connection, Host
from pylaunch.transport.process import Completed
from pylaunch.transport.slurm import connector
from pylaunch.transport.slurm.connector import SlurmConnector, own_words, step_failure

HOST = Host("n1", "10.0.0.1", Connection.SLURM, slurm_job="7")


def test_a_step_names_its_job_and_node_and_waits_for_no_other_step() -> None:
    words = connector.step("7", ("n1", "n2"), ("echo", "a b"), environment={})
    assert words[:3] == ("env", "SLURM_EXIT_ERROR=254", "srun")
    assert words[-3:] == ("--", "echo", "a b")
    assert {"--jobid=7", "--nodelist=n1,n2", "--nodes=2", "--ntasks=2", "--overlap", "--no-kill"} <= {*words}
    assert "--export=ALL,PYLAUNCH_SLURM_JOB=7" in words


def test_inputs_of_srun_are_removed_and_the_configuration_stays() -> None:
    inherited = {"SLURM_NTASKS": "8", "SLURM_CPUS_PER_TASK": "4", "PMI_RANK": "0", "SLURM_CONF": "/c", "HOME": "/root"}
    assert connector.without_inputs(inherited) == (
        "env", "-u", "PMI_RANK", "-u", "SLURM_CPUS_PER_TASK", "-u", "SLURM_NTASKS", "SLURM_EXIT_ERROR=254",
    )  # fmt: skip


def test_only_an_end_of_srun_itself_is_a_failure_of_the_connection() -> None:
    node = SlurmConnector(HOST)
    assert node.failure(Completed((), 96, "", "srun: error: n1: task 0: Exited with exit code 96\n")) is None
    failure = node.failure(Completed((), connector.FAILED, "", "srun: error: Slurm job 7 has expired\n"))
    assert failure is not None
    assert failure.reason == "Slurm job 7 has ended"


def test_ansible_does_not_reach_a_host_of_a_job() -> None:
    with pytest.raises(ClusterNotReadyError, match="n1 is reached through Slurm job 7"):
        SlurmConnector(HOST).ansible_variables()


PARTITION = """\
sbatch: error: invalid partition specified: nope
sbatch: error: Batch job submission failed: Invalid partition name specified
"""
OPTION = """\
sbatch: unrecognized option '--bogus'
Try "sbatch --help" for more information
"""
ENDED = """\
srun: cluster configuration lacks support for cpu binding
srun: error: n1: task 0: Terminated
"""
FORGOTTEN = """\
srun: error: Unable to confirm allocation for job 7: Invalid job id specified
srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7
"""
EXPIRED = """\
srun: error: Slurm job 7 has expired
srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 7
"""


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        (PARTITION, "Batch job submission failed: Invalid partition name specified"),
        (OPTION, "unrecognized option '--bogus'"),
        ("slurm_load_jobs error: Invalid job id specified\n", "slurm_load_jobs error: Invalid job id specified"),
        (ENDED, "no output"),
        ("", "no output"),
    ],
)
def test_the_words_that_explain_a_failure(stderr: str, words: str) -> None:
    assert own_words(stderr) == words


@pytest.mark.parametrize(
    "stderr",
    [
        FORGOTTEN,
        EXPIRED,
        "srun: error: Unable to create step for job 7: Job/step already completing or completed\n",
        "srun: error: Unable to create step for job 7: Job is pending execution\n",
    ],
)
def test_after_the_end_of_its_job_no_attempt_reaches_a_node(stderr: str) -> None:
    failure = step_failure("7", "n1", stderr)
    assert (failure.reason, failure.is_final) == ("Slurm job 7 has ended", True)


@pytest.mark.parametrize(
    "stderr",
    [
        "srun: error: Unable to create step for job 7: Requested node configuration is not available\n",
        "srun: error: Node failure on n1\n",
    ],
)
def test_no_attempt_reaches_a_node_that_slurm_has_removed_from_the_job(stderr: str) -> None:
    failure = step_failure("7", "n1", stderr)
    assert failure.reason == "Slurm has removed n1 from job 7, as it does with a node that failed"
    assert failure.is_final
    assert failure.hint == "scontrol show node n1 shows its state and the reason"
