"""Words of Slurm's commands, recorded from Slurm 22.05, and what pylaunch makes of them."""

import pytest

from pylaunch.transport.slurm.connector import own_words, step_failure

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
