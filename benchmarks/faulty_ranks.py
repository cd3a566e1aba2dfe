"""A rank of a small gloo job with one fault, for benchmarks/record_collectives.py. Needs torch.

Usage: faulty_ranks.py FAULT REQUESTS ANSWERS DIRECTORY, with the environment of torchrun. A byte on the descriptor
REQUESTS makes a thread write the flight recorder and the stacks of all threads to DIRECTORY, then a byte to ANSWERS.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
import types
from pathlib import Path

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GUILTY = 1


def dump(path: Path) -> None:
    """Write the flight recorder as a pickle, the groups and the stacks of all threads."""
    # A dump with stacks imports torch._inductor, which takes seconds; an empty module in its place prevents that.
    absent = "torch._inductor" not in sys.modules
    if absent:
        sys.modules["torch._inductor"] = types.ModuleType("torch._inductor")
    recorded = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
    if absent:
        del sys.modules["torch._inductor"]
    path.with_suffix(".pickle").write_bytes(recorded)
    world = dist.distributed_c10d._world
    groups = [
        {"name": name, "description": group.group_desc, "ranks": sorted(world.pg_group_ranks[group])}
        for group, name in world.pg_names.items()
    ]
    names = {thread.ident: thread for thread in threading.enumerate()}
    threads = []
    for ident, frame in sys._current_frames().items():
        thread = names.get(ident)
        if ident == threading.get_ident() or thread is None:
            continue
        frames, at = [], frame
        while at is not None:
            frames.append({"function": at.f_code.co_name, "path": at.f_code.co_filename, "line": at.f_lineno})
            at = at.f_back
        threads.append({"name": thread.name, "is_main": thread is threading.main_thread(), "frames": frames})
    path.with_suffix(".json").write_text(json.dumps({"groups": groups, "threads": threads, "pid": os.getpid()}))


def answer(requests: int, answers: int, directory: Path) -> None:
    """Report readiness, then dump once for each byte on `requests`."""
    os.write(answers, b".")
    number = 0
    while os.read(requests, 1):
        number += 1
        dump(directory / f"{RANK}-{number}")
        os.write(answers, b".")


def gradient() -> torch.Tensor:
    """Return something to reduce."""
    return torch.ones(4)


def train_step() -> None:
    """Reduce one gradient."""
    dist.all_reduce(gradient())


def reduce_loss() -> None:
    """Reduce one number."""
    dist.all_reduce(torch.ones(1))


def warm_up() -> None:
    """Call three collectives on every rank."""
    for _ in range(3):
        train_step()


def skips_and_waits() -> None:
    """One rank waits for a lock in place of the fourth call."""
    warm_up()
    if RANK == GUILTY:
        wait_for_cache()
    train_step()


def wait_for_cache() -> None:
    """Take a lock twice."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def skips_and_continues() -> None:
    """One rank omits one call of a loop, and waits at its end."""
    for step in range(3):
        train_step()
        if not (RANK == GUILTY and step == 1):
            reduce_loss()
    if RANK == GUILTY:
        wait_for_cache()
    train_step()


def other_operation() -> None:
    """One rank broadcasts while the others reduce."""
    warm_up()
    if RANK == GUILTY:
        dist.broadcast(gradient(), src=0)
    else:
        train_step()


def rank_0_deviates() -> None:
    """Rank 0 alone saves a checkpoint that has a barrier inside."""
    warm_up()
    if RANK == 0:
        save_checkpoint()
    train_step()


def save_checkpoint() -> None:
    """Wait for all ranks, which do not come."""
    dist.barrier()


def inverse_order() -> None:
    """One rank uses two groups in the other order."""
    first, second = dist.new_group(), dist.new_group()
    order = (second, first) if RANK == GUILTY else (first, second)
    for group in order:
        dist.all_reduce(gradient(), group=group)


def loads_data() -> None:
    """One rank reads its batch slowly."""
    warm_up()
    if RANK == GUILTY:
        load_batch()
    train_step()


def load_batch() -> None:
    """Sleep and compute in turns."""
    while True:
        time.sleep(0.01)
        sum(range(20000))


def opens_file() -> None:
    """One rank opens a FIFO that nobody writes."""
    warm_up()
    if RANK == GUILTY:
        read_shard(Path(sys.argv[4]) / "shard")
    train_step()


def read_shard(path: Path) -> None:
    """Open a FIFO."""
    os.mkfifo(path)
    with path.open():
        pass


def reads_terminal() -> None:
    """Rank 0 asks a question."""
    warm_up()
    if RANK == 0:
        input()
    train_step()


def no_barrier() -> None:
    """One rank does not reach a barrier."""
    warm_up()
    if RANK == GUILTY:
        wait_for_cache()
    dist.barrier()


def receives_in_circle() -> None:
    """Every rank receives from the next one, and no rank sends."""
    warm_up()
    dist.recv(gradient(), src=(RANK + 1) % WORLD)


def starts_asynchronous() -> None:
    """One rank omits the last of four asynchronous calls."""
    warm_up()
    calls = [dist.all_reduce(gradient(), async_op=True) for _ in range(1 if RANK == GUILTY else 4)]
    if RANK == GUILTY:
        wait_for_cache()
    for call in calls:
        call.wait()


def chain_of_groups() -> None:
    """Four ranks in two tensor and two data groups; the last rank waits for a lock before its tensor group's call."""
    groups = {name: dist.new_group(list(ranks), group_desc=name) for name, ranks in CHAIN}
    tensor, data = ("tp0" if RANK < 2 else "tp1"), ("dp0" if RANK % 2 == 0 else "dp1")
    for step in range(3):
        if RANK == 3 and step == 2:
            wait_for_cache()
        dist.all_reduce(gradient(), group=groups[tensor])
        dist.all_reduce(gradient(), group=groups[data])


CHAIN = (("tp0", (0, 1)), ("tp1", (2, 3)), ("dp0", (0, 2)), ("dp1", (1, 3)))


def is_healthy() -> None:
    """Every rank trains."""
    while True:
        train_step()
        time.sleep(0.01)


FAULTS = {each.__name__: each for each in (
    skips_and_waits, skips_and_continues, other_operation, rank_0_deviates, inverse_order, loads_data, opens_file,
    reads_terminal, no_barrier, receives_in_circle, starts_asynchronous, chain_of_groups, is_healthy,
)}  # fmt: skip
FAULTS["is_stopped"] = skips_and_waits
FAULTS["pair_differs"] = other_operation


def main() -> None:
    """Join the others, then run the fault."""
    requests, answers = int(sys.argv[2]), int(sys.argv[3])
    assert importlib.util.find_spec("torch._inductor") is not None
    dist.init_process_group("gloo")
    threading.Thread(target=answer, args=(requests, answers, Path(sys.argv[4])), daemon=True).start()
    FAULTS[sys.argv[1]]()


if __name__ == "__main__":
    main()
