"""Command lines of srun depend on nothing that this process inherited from Slurm."""

import pytest

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Connection, Host
from pylaunch.transport.process import Completed
from pylaunch.transport.slurm import connector
from pylaunch.transport.slurm.connector import SlurmConnector

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
