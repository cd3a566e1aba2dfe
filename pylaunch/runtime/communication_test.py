"""`python -m pylaunch.runtime.communication_test`: what `pylaunch doctor` runs as a job, one rank on each host.

    barrier      all ranks meet at rank 0, over plain sockets on the rendezvous port
    import       torch, or jax where torch is absent
    all_reduce   the sum of rank + 1 over all ranks, compared with its value

Each stage prints a line that begins with STAGE. A stage that fails raises its error, so the rank ends with a code other
than 0 and the last line names what failed.
"""

from __future__ import annotations

import importlib.util
import sys
from datetime import timedelta
from typing import Any

from pylaunch.runtime import failure
from pylaunch.runtime.initialize import init, roll_call
from pylaunch.runtime.patience import Patience
from pylaunch.runtime.place import Place, place

STAGE = "pylaunch communication test:"
BARRIER, IMPORT, NO_FRAMEWORK, ALL_REDUCE = "barrier", "import", "no framework", "all_reduce"
PATIENCE = Patience(tries=2, first_s=10.0)
TIMEOUT = timedelta(seconds=60)
"""For a connection of gloo, and for the sum: torch would wait for half an hour."""

LENGTH = 4096
"""Numbers in the tensor: more than gloo sends in its first packet."""


class WrongSumError(Exception):
    """An all-reduce returned another sum than that of its inputs."""


def main() -> None:
    """Run the stages. Raises the error of the first that fails."""
    mine = place()
    if mine.world_size > 1:
        roll_call(mine, PATIENCE)
    report(BARRIER)
    framework = next((name for name in ("torch", "jax") if importlib.util.find_spec(name) is not None), None)
    if framework is None:
        report(NO_FRAMEWORK)
        return
    module = __import__(framework)
    report(f"{IMPORT} {framework} {module.__version__}")
    failure.watch()
    sums = torch_sums(module, mine) if framework == "torch" else jax_sums(mine)
    expected = mine.world_size * (mine.world_size + 1) / 2
    if wrong := [each for each in sums if each != expected]:
        raise WrongSumError(f"the sum over {mine.world_size} ranks is {wrong[0]:g}, expected {expected:g}")
    report(f"{ALL_REDUCE} {framework} {expected:g}")


def torch_sums(torch: Any, mine: Place) -> list[float]:
    """Return the result of gloo's all_reduce on the CPU. Raises gloo's error after TIMEOUT."""
    torch.distributed.init_process_group("gloo", rank=mine.rank, world_size=mine.world_size, timeout=TIMEOUT)
    tensor = torch.full((LENGTH,), float(mine.rank + 1))
    torch.distributed.all_reduce(tensor)
    sums: list[float] = tensor.tolist()
    torch.distributed.destroy_process_group()
    return sums


def jax_sums(mine: Place) -> list[float]:
    """Return the sum of the values that all processes of JAX gathered."""
    import jax.numpy  # noqa: PLC0415 -- a script for torch must not pay for it
    from jax.experimental import multihost_utils  # noqa: PLC0415 -- jax is there

    init("jax", patience=PATIENCE)
    gathered = multihost_utils.process_allgather(jax.numpy.full((LENGTH,), float(mine.rank + 1)))
    sums: list[float] = gathered.reshape(-1, LENGTH).sum(axis=0).tolist()
    return sums


def report(text: str) -> None:
    """Print the end of a stage."""
    sys.stdout.write(f"{STAGE} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
