"""Ranks of JAX, accelerate and DeepSpeed print nothing that they do not print when their own launcher starts them.

One version of each is compared, with torch 2.13.0 and no other torch, so a line that an older or a newer version prints
because of a variable of pylaunch is not found here. `tests/contract/test_torch_output.py` compares with plain torchrun.
"""

import base64
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from pylaunch.errors import ExitCode
from pylaunch.model.text.argv import Argv
from tests.lab.controller import must_be_clean
from tests.lab.test_frameworks import EXAMPLES, leaving, start
from tests.ports import free_port

PYTHON = "/opt/pylaunch/current/bin/python"
LEFT_BEHIND = "left behind: # threads of gloo"
"""Printed by the script of the test, after the framework has ended."""

WORLD = base64.urlsafe_b64encode(b'{"localhost": [0, 1]}').decode()
TWO_PROCESSES = """
OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 "$@" &
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 "$@" && wait $!
"""


def jax(port: int, *script: str) -> Argv:
    """Two processes with the variables that `mpirun` sets and JAX reads."""
    sizes = ("OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2")
    where = (f"OMPI_MCA_orte_hnp_uri=0.0;tcp://127.0.0.1:{port}", f"JAX_COORDINATOR_ADDRESS=127.0.0.1:{port}")
    return (*sizes, *where, "sh", "-c", TWO_PROCESSES, "sh", PYTHON, *script)


def accelerate(port: int, *script: str) -> Argv:
    """`accelerate launch`, which starts several processes on CPUs only as if they had GPUs."""
    world = ("--multi_gpu", "--num_machines", "1", "--num_processes", "2", "--main_process_port", str(port))
    complete = ("--mixed_precision", "no", "--dynamo_backend", "no")
    launcher = (PYTHON, "-m", "accelerate.commands.launch", *world, *complete)
    return ("ACCELERATE_USE_CPU=true", "OMP_NUM_THREADS=1", *launcher, *script)


def deepspeed(port: int, *script: str) -> Argv:
    """The part of DeepSpeed's launcher that starts the ranks of a node."""
    world = (f"--world_info={WORLD}", "--master_addr=127.0.0.1", f"--master_port={port}")
    return ("OMP_NUM_THREADS=1", PYTHON, "-u", "-m", "deepspeed.launcher.launch", *world, *script)


def without_numbers(text: str) -> str:
    """Times and process ids differ from run to run."""
    return re.sub(r"\d+", "#", text)


def must_print_no_more(lab: Lab, logs: Path, plain: Argv) -> None:
    """Assert that `plain`, started on n1, prints every line of the ranks whose output is in `logs`, as often."""
    alone = lab["n1"].run("timeout", "200", "env", *plain, check=False)
    assert alone.returncode == 0, alone.stderr[-3000:]
    texts = [without_numbers(file.read_text()) for file in logs.rglob("[01].*")]
    printed = Counter(line for text in texts for line in text.splitlines() if line != LEFT_BEHIND)
    assert printed.total() > 2
    # Ranks of the plain launcher share a pipe, and the text of one may be within a line of the other.
    by_the_launcher = without_numbers(alone.stdout + alone.stderr)
    assert [line for line, times in printed.items() if by_the_launcher.count(line) < times] == []


@pytest.mark.parametrize(
    ("plain", "script"),
    [(jax, ("jax_train.py", "--steps", "20")), (accelerate, ("accelerate_train.py", "--epochs", "1"))],
    ids=["jax", "accelerate"],
)
def test_ranks_print_no_line_that_their_own_launcher_does_not_print(
    framework_lab: Lab, tmp_path: Path, plain: Callable[..., Argv], script: tuple[str, ...]
) -> None:
    words = (str(EXAMPLES / script[0]), *script[1:])
    size = ("--limit", "n1", "--nproc-per-node", "2")
    run = start(framework_lab, plain.__name__, *size, "--save-logs", str(tmp_path), "--", *words)
    assert run.returncode == ExitCode.DONE, run.stderr
    must_print_no_more(framework_lab, tmp_path, plain(free_port(), *words))


def test_deepspeed_trains_with_its_configuration_and_prints_no_line_that_it_does_not_print_with_its_launcher(
    framework_lab: Lab, tmp_path: Path
) -> None:
    config = ("--deepspeed", f"--deepspeed_config={EXAMPLES / 'deepspeed.json'}")
    words = (leaving(framework_lab, "deepspeed_train.py"), *config, "--epochs=1")
    run = start(framework_lab, "deepspeed", "--save-logs", str(tmp_path), "--", *words)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert "rank 1 of 2 on n2: ZeRO 1" in run.stdout
    assert "trained on 2 ranks" in run.stdout
    assert run.stdout.count("left behind: 0 threads of gloo") == 2
    must_be_clean(framework_lab)
    must_print_no_more(framework_lab, tmp_path, deepspeed(free_port(), *words))
