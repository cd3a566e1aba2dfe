"""One rank of a drill: a training loop in which one rank has a fault.

Usage: python -m ranks.drill_rank PROGRAM FAULT RANK ARGUMENT

PROGRAM is the library in which the ranks meet, FAULT a function of this file, RANK the rank that calls it. Every rank
writes "drill: ready" after some steps, and the rank with the fault "drill: fault" right before it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from .groups import GROUPS, STEP_S, Group, Torch

STEPS = 30
PATIENCE_S = 8.0
LONG_S = 45.0
"""Longer than ranks may be without progress before `pylaunch start` examines them."""

CHUNK = 16 << 20
RANK = int(os.environ["RANK"])
ARGUMENTS = [word for word in sys.argv[1:] if not word.startswith("--local_rank")]
"""Without the argument that DeepSpeed's launcher adds."""


# Faults that end a rank


def raises(_: Group) -> None:
    raise RuntimeError("loss is NaN at step 30")


def exits(_: Group) -> None:
    sys.exit(3)


def exits_silently(_: Group) -> None:
    os._exit(7)


def exits_with_a_message(_: Group) -> None:
    sys.exit("config.yaml: no key learning_rate")


def leaves(_: Group) -> None:
    """Exit as if the training were over; others still wait."""
    sys.stdout.flush()
    os._exit(0)


def is_killed(_: Group) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_terminated(_: Group) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(LONG_S)


def crashes(_: Group) -> None:
    ctypes.string_at(0)


def aborts(_: Group) -> None:
    os.abort()


def imports_nothing(_: Group) -> None:
    __import__("flash_attention_of_drill")


def opens_no_file(_: Group) -> None:
    Path("/nonexistent/shard-00007.tar").open("rb").close()


def writes_to_a_full_disk(_: Group) -> None:
    with Path("/dev/full").open("wb", buffering=0) as checkpoint:
        checkpoint.write(b"x")


def asks(_: Group) -> None:
    """Ask a question; nobody is at the terminal of a rank."""
    input("continue? ")


def allocates_too_much(_: Group) -> None:
    """Ask for more memory than a limit of the process allows."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    bytearray(8 << 30)


def opens_too_many(_: Group) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    raise AssertionError(files)


def starts_a_program_that_fails(_: Group) -> None:
    subprocess.run(["false"], check=True)


def binds_a_port_twice(_: Group) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(first.getsockname()):
        pass


def reads_broken_code(_: Group) -> None:
    compile("def train(:\n", "model.py", "exec")


def asserts(_: Group) -> None:
    assert RANK < 0, "batch has 31 rows, expected 32"


def recurses(group: Group) -> None:
    recurses(group)


def loses_a_worker(_: Group) -> None:
    """Have a worker of a DataLoader killed."""
    from torch.utils.data import DataLoader

    for _batch in DataLoader(Killed(), num_workers=1):
        pass


class Killed:
    """A data set whose worker dies."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index


def has_another_model(_: Group) -> None:
    """Build a model with another layer than the others; see `trains_a_model`."""
    trains_a_model(65)


def trains_a_model(width: int) -> None:
    """Wrap a model of this width in DistributedDataParallel, which compares the models of all ranks."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    DistributedDataParallel(torch.nn.Linear(64, width))


def grows(_: Group) -> None:
    """Take memory until the kernel intervenes."""
    taken: list[bytes] = []
    while len(taken) * CHUNK < 4 << 30:
        taken.append(b"x" * CHUNK)
        time.sleep(0.02)


def continues(_: Group) -> None:
    """Train on; the fault comes from outside."""


# Faults that stop a rank's progress


def is_stopped(_: Group) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def waits_for_a_lock(_: Group) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def skips_a_collective(group: Group) -> None:
    """Omit the sum of the losses, take part in the next steps, then stop."""
    for _ in range(3):
        group.reduce()
    waits_for_a_lock(group)


def sums_losses(group: Group) -> None:
    """Sum the losses, then take the next steps."""
    reduce_loss(group)
    for _ in range(3):
        group.reduce()


def reduce_loss(group: Group) -> None:
    assert isinstance(group, Torch)
    group.distributed.all_reduce(group.torch.ones(4))


def joins_with_another_shape(group: Group) -> None:
    assert isinstance(group, Torch)
    group.reduce(8)


def uses_groups_in_another_order(group: Group) -> None:
    _two_groups(group, backwards=True)


def _two_groups(group: Group, *, backwards: bool) -> None:
    assert isinstance(group, Torch)
    pair = [group.distributed.new_group(), group.distributed.new_group()]
    for each in reversed(pair) if backwards else pair:
        group.distributed.all_reduce(group.torch.ones(4), group=each)


def reads_a_shard(_: Group) -> None:
    """Read from the directory ARGUMENT, whose file system does not answer."""
    Path(ARGUMENTS[3], "shard-00001.tar").open("rb").close()


# Healthy ranks that take their time


def nothing(_: Group) -> None:
    pass


def writes_a_checkpoint(_: Group) -> None:
    """Write slowly for a long time, as rank 0 does while the others wait."""
    with tempfile.NamedTemporaryFile() as checkpoint:
        save(checkpoint)


def save(checkpoint: Any) -> None:
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        checkpoint.write(b"x" * 65536)
        checkpoint.flush()
        time.sleep(0.1)


def evaluate(_: Group) -> None:
    """Compute for a long time on one rank."""
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        sum(range(100_000))


def loads_data(_: Group) -> None:
    """Wait long for a data server, in turns with work."""
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        time.sleep(0.02)
        sum(range(20_000))


def is_quiet(_: Group) -> None:
    """Sleep long."""
    time.sleep(LONG_S)


def compiles(_: Group) -> None:
    """Compile a large function with JAX."""
    import jax

    def large(values: Any) -> Any:
        for number in range(3000):
            values = jax.numpy.sin(values) * number
        return values

    jax.jit(large).lower(jax.numpy.ones(4)).compile()


def is_noisy(_: Group) -> None:
    """Write warnings and texts that look like failures of others."""
    for number in range(200):
        print(f"WARNING: retrying, Connection reset by peer ({number})", file=sys.stderr, flush=True)
        print("[W socket.cpp:462] Warning: the socket could not be opened, errno 111", file=sys.stderr, flush=True)


def raises_and_recovers(group: Group) -> None:
    """Handle an exception, and show it."""
    import traceback

    try:
        raises(group)
    except RuntimeError:
        traceback.print_exc()


def forks(_: Group) -> None:
    """Run programs of other languages, one of which fails."""
    for code in (0, 1):
        subprocess.run(["sh", "-c", f"exit {code}"], check=False)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


# Ranks that do the same, or another thing beside it


BESIDE: dict[str, Callable[[Group], None]] = {
    "uses_groups_in_another_order": lambda group: _two_groups(group, backwards=False),
    "skips_a_collective": sums_losses,
    "has_another_model": lambda _: trains_a_model(64),
}
"""Fault → calls of the other ranks at that moment."""

HEALTHY = (
    nothing, writes_a_checkpoint, evaluate, loads_data, is_quiet, compiles, is_noisy, raises_and_recovers, forks,
)  # fmt: skip
"""After these, the training continues to its end."""


def never_joins() -> NoReturn:
    """Wait in place of meeting the others."""
    print("drill: ready", flush=True)
    print("drill: fault", flush=True)
    while True:
        time.sleep(LONG_S)


def meet(program: str, fault: str) -> Group:
    """Return the group of this rank. With `never_joins` and `is_late`, the others do not wait long."""
    if program == "torch" and fault in ("never_joins", "is_late"):
        return Torch(PATIENCE_S)
    made: Group = GROUPS[program]()
    return made


def is_late(_: Group) -> None:
    """Sleep longer than the others wait."""
    time.sleep(4 * LONG_S)


def starts_late(_: Group) -> None:
    """Do nothing: `main` slept before the ranks met."""


def main() -> None:
    """Train; at step STEPS, one rank has its fault."""
    program, fault, rank, _ = ARGUMENTS
    guilty = int(rank) == RANK
    if guilty and fault == "never_joins":
        never_joins()
    if guilty and fault == "starts_late":
        time.sleep(LONG_S)
    if fault == "never_joins":
        print("drill: ready", flush=True)
    group = meet(program, fault)
    for _ in range(STEPS):
        group.reduce()
    if fault != "never_joins":
        print("drill: ready", flush=True)
    action: Callable[[Group], None] = globals()[fault]
    time.sleep(0.5)
    if guilty:
        print("drill: fault", flush=True)
        action(group)
    elif fault in BESIDE:
        BESIDE[fault](group)
    is_healthy = action in HEALTHY or fault == "starts_late"
    for _ in range(STEPS):
        group.reduce()
        time.sleep(STEP_S)
    while not is_healthy:
        group.reduce()
        time.sleep(STEP_S)
    group.close()
    print("drill: done", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
