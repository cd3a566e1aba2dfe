"""Ranks of JAX, accelerate and DeepSpeed print nothing that they do not print when their own launcher starts them.

One version of each is compared, with torch 2.13.0 and no other torch, so a line that an older or a newer version prints
because of a variable of pylaunch is not found here. `tests/contract/test_torch_output.py` compares with plain torchrun.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pylaunch.errors import ExitCode
from pylaunch.features.lab.cluster.lab import Lab
from pylaunch.model.text.argv import Argv
from tests.ports import free_port

pytestmark = [pytest.mark.lab, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTHON = "/opt/pylaunch/current/bin/python"
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


@pytest.mark.parametrize(
    ("plain", "script"),
    [
        (jax, ("jax_train.py", "--steps", "20")),
        (accelerate, ("accelerate_train.py", "--epochs", "1")),
        (
            deepspeed,
            ("deepspeed_train.py", "--deepspeed", f"--deepspeed_config={EXAMPLES / 'deepspeed.json'}", "--epochs=1"),
        ),
    ],
    ids=["jax", "accelerate", "deepspeed"],
)
def test_ranks_print_no_line_that_their_own_launcher_does_not_print(
    framework_lab: Lab, tmp_path: Path, plain: Callable[..., Argv], script: tuple[str, ...]
) -> None:
    words = (str(EXAMPLES / script[0]), *script[1:])
    alone = framework_lab["n1"].run("timeout", "200", "env", *plain(free_port(), *words), check=False)
    assert alone.returncode == 0, alone.stderr[-3000:]
    inventory, logs = ("-i", str(framework_lab.inventory)), ("--collect", str(tmp_path / "logs"))
    size = ("--limit", "n1", "--nproc-per-node", "2")
    run = framework_lab.pylaunch(
        "start", *inventory, "--framework", plain.__name__, *size, *logs, "--", *words,
        cwd=framework_lab.inventory.parent, timeout_s=280,
    )  # fmt: skip
    assert run.returncode == ExitCode.DONE, run.stderr
    texts = [without_numbers(file.read_text()) for file in (tmp_path / "logs").rglob("[01].*")]
    printed = Counter(line for text in texts for line in text.splitlines())
    assert printed.total() > 2, run.stderr
    # Ranks of the plain launcher share a pipe, and the text of one may be within a line of the other.
    by_the_launcher = without_numbers(alone.stdout + alone.stderr)
    assert [line for line, times in printed.items() if by_the_launcher.count(line) < times] == []
