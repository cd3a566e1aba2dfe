"""`python -m pylaunch.runtime.communication_test`: the job of `pylaunch check --trial`, one rank on each host.

    barrier      all ranks meet at rank 0, over plain sockets on the rendezvous port
    import       torch, or jax where torch is absent; all ranks meet again, because one may import slowly
    all_reduce   the sum of rank + 1 over all ranks, on the CPU, compared with its value

Each stage prints a line that begins with STAGE. A stage that fails raises its error, so the rank ends with a code other
than 0 and the last line names what failed. A stage that does not end within its limit ends the rank.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import os
import sys
import threading
from datetime import timedelta
from typing import Any, Iterator

from pylaunch.runtime import failure
from pylaunch.runtime.initialize import in_url
from pylaunch.runtime.meeting import meet
from pylaunch.runtime.place import Place, place

STAGE = "pylaunch communication test:"
BARRIER, IMPORT, NO_FRAMEWORK, ALL_REDUCE = "barrier", "import", "no framework", "all_reduce"
MEETING_S = 30.0
IMPORT_LIMIT = timedelta(seconds=120)
"""A cold network file system needs a minute for torch."""

TIMEOUT = timedelta(seconds=60)
"""For a connection of gloo, and for the sum: torch would wait for half an hour, JAX for five minutes."""

ALL_REDUCE_LIMIT = TIMEOUT + timedelta(seconds=15)
"""For connections and sum together, which the framework bounds in part: its own error has a cause and is preferred."""

REPORTED_S = 2.0
"""For Python code to end a rank that exceeded its limit; then faulthandler ends it without the GIL."""

LENGTH = 4096
"""Numbers in the tensor: more than gloo sends in its first packet."""


class WrongSumError(Exception):
    """An all-reduce returned another sum than that of its inputs."""


class StageTimeoutError(Exception):
    """A stage did not end within its limit."""


def main() -> None:
    """Run the stages. Raises the error of the first that fails."""
    mine = place()
    if mine.world_size > 1:
        meet(mine, MEETING_S)
    report(BARRIER)
    framework = next((name for name in ("torch", "jax") if importlib.util.find_spec(name) is not None), None)
    if framework is None:
        report(NO_FRAMEWORK)
        return
    with time_limited(f"import {framework}", IMPORT_LIMIT):
        module = __import__(framework)
    report(f"{IMPORT} {framework} {module.__version__}")
    failure.watch()
    if mine.world_size > 1:
        meet(mine, IMPORT_LIMIT.total_seconds())
    with time_limited(ALL_REDUCE, ALL_REDUCE_LIMIT):
        sums = torch_sums(module, mine) if framework == "torch" else jax_sums(module, mine)
    expected = mine.world_size * (mine.world_size + 1) / 2
    if wrong := [each for each in sums if each != expected]:
        raise WrongSumError(f"the sum over {mine.world_size} ranks is {wrong[0]:g}, expected {expected:g}")
    report(f"{ALL_REDUCE} {framework} {expected:g}")


@contextlib.contextmanager
def time_limited(stage: str, limit: timedelta) -> Iterator[None]:
    """End this process with StageTimeoutError and the stacks of its threads if the block takes longer than `limit`."""
    seconds = limit.total_seconds()
    timer = threading.Timer(seconds, _end, (stage, seconds))
    timer.daemon = True
    faulthandler.dump_traceback_later(seconds + REPORTED_S, exit=True)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(stage: str, seconds: float) -> None:
    error = StageTimeoutError(f"{stage} did not end within {seconds:g} s")
    failure.keep(error)
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.write(f"{StageTimeoutError.__name__}: {error}\n")
    sys.stderr.flush()
    os._exit(1)


def torch_sums(torch: Any, mine: Place) -> list[float]:
    """Return the result of gloo's all_reduce on the CPU. Raises gloo's error after TIMEOUT."""
    torch.distributed.init_process_group("gloo", rank=mine.rank, world_size=mine.world_size, timeout=TIMEOUT)
    tensor = torch.full((LENGTH,), float(mine.rank + 1))
    torch.distributed.all_reduce(tensor)
    sums: list[float] = tensor.tolist()
    torch.distributed.destroy_process_group()
    return sums


def jax_sums(jax: Any, mine: Place) -> list[float]:
    """Return the sum of the values that all processes of JAX gathered, with gloo on the CPU."""
    jax.config.update("jax_platforms", "cpu")  # JAX for GPUs would take their memory from a run.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    seconds = int(TIMEOUT.total_seconds())
    jax.distributed.initialize(
        f"{in_url(mine.address)}:{mine.port}", mine.world_size, mine.rank, initialization_timeout=seconds
    )
    from jax.experimental import multihost_utils  # noqa: PLC0415 -- jax is there

    gathered = multihost_utils.process_allgather(jax.numpy.full((LENGTH,), float(mine.rank + 1)))
    sums: list[float] = gathered.reshape(-1, LENGTH).sum(axis=0).tolist()
    jax.distributed.shutdown()
    return sums


def report(text: str) -> None:
    """Print the end of a stage."""
    sys.stdout.write(f"{STAGE} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
