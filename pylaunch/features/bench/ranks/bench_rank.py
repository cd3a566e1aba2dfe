"""One rank of `pylaunch bench`, with torch: python -m ranks.bench_rank PLAN

Stages, each of which all ranks enter together:

    barrier      all ranks meet at rank 0, over plain sockets; the missing are named
    correctness  one small all-reduce, compared with its value
    all-reduce   its time over sizes, and elements with a wrong value
    pairs        rounds of disjoint pairs of nodes, all pairs of a round at once

PLAN is a JSON object: backend, stages, sizes, rounds (numbers, see rounds.py), pairs (further rounds, each a list of
pairs of nodes), pair_size. Each measurement is one line: PREFIX and a JSON object. Nothing is judged here. Times are
seconds, sizes bytes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from pylaunch.runtime import failure
from pylaunch.runtime.place import place

from .collectives import ELEMENT, Collectives, connected
from .meeting import meet
from .rounds import partner

PREFIX = "pylaunch bench: "
IMPORT_LIMIT = timedelta(seconds=120)
"""A cold network file system needs a minute for torch."""

TIMEOUT = timedelta(seconds=60)
"""For a connection of a group: torch would wait for half an hour."""

BLOCKS = 5
"""Parts of the timed iterations of one size; their median is the result."""

WARM_UP = 2
SECONDS = 0.5
"""About so long for one size or pair."""

TIME_LIMIT_S = 120.0
"""Of the all-reduce: sizes that would exceed it are omitted."""

FEWEST, MOST = 3, 20
"""Iterations of one size or pair."""

LEAST_EXCHANGE = 256 << 10


def report(kind: str, **fields: object) -> None:
    sys.stdout.write(PREFIX + json.dumps({"kind": kind, "rank": MINE.rank, **fields}) + "\n")
    sys.stdout.flush()


def all_reduce(ranks: Collectives, given: Any) -> None:
    """Time the all-reduce of each size, until the next one would exceed the time limit."""
    begun = time.monotonic()
    for size in given.sizes:
        run = ranks.all_reduce(size)
        # The slowest rank decides, so all ranks decide the same.
        slowest, so_far = ranks.largest([timed(ranks, run, WARM_UP), time.monotonic() - begun])
        count = max(FEWEST, min(MOST, int(SECONDS / slowest)))
        if so_far + count * slowest > TIME_LIMIT_S:
            return
        blocks = min(BLOCKS, count)
        seconds = ranks.largest([timed(ranks, run, count // blocks) for _ in range(blocks)])
        wrong = ranks.wrong(size)
        if MINE.rank == 0:
            report("all-reduce", size=size, seconds=seconds, wrong=wrong)


def timed(ranks: Collectives, run: Callable[[], None], count: int) -> float:
    """Return the mean time of `count` calls of `run`, which all ranks begin together."""
    ranks.barrier()
    begun = time.perf_counter()
    for _ in range(count):
        run()
    ranks.synchronize()
    return (time.perf_counter() - begun) / count


def pairs(ranks: Collectives, given: Any) -> None:
    """Exchange data with another node in each round, in both directions at once."""
    planned = [peer_in_round(number) for number in given.rounds] + [peer_of(each) for each in given.pairs]
    for number, peer in enumerate(planned):
        ranks.barrier()
        if peer is not None:
            size, times = exchanged(ranks, peer, given.pair_size)
            report("pair", round=number, peer=peer, size=size, seconds=times)


def exchanged(ranks: Collectives, peer: int, size: int) -> tuple[int, list[float]]:
    """Return the size that fits SECONDS and the times of its exchanges; a slow pair gets smaller messages."""
    probe = max(LEAST_EXCHANGE, size // 16)
    first = ranks.exchange(peer, probe)
    first()  # Connects.
    once = ranks.larger_of_both(peer, elapsed(ranks, first))
    size = max(probe, min(size, int(probe * SECONDS / FEWEST / once)) // ELEMENT * ELEMENT)
    run = ranks.exchange(peer, size)
    warm = ranks.larger_of_both(peer, elapsed(ranks, run))
    count = max(FEWEST, min(MOST, int(SECONDS / warm)))
    return size, [elapsed(ranks, run) for _ in range(count)]


def elapsed(ranks: Collectives, run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    ranks.synchronize()
    return time.perf_counter() - begun


def peer_in_round(number: int) -> int | None:
    nodes = MINE.world_size // MINE.local_world_size
    node = partner(MINE.rank // MINE.local_world_size, number, nodes)
    return None if node is None else node * MINE.local_world_size + MINE.local_rank


def peer_of(pairs: list[list[int]]) -> int | None:
    mine = MINE.rank // MINE.local_world_size
    node = next((first + second - mine for first, second in pairs if mine in (first, second)), None)
    return None if node is None else node * MINE.local_world_size + MINE.local_rank


REPORTED_S = 2.0
"""For Python code to end a rank after its limit."""


@contextlib.contextmanager
def time_limited(stage: str, limit: timedelta) -> Iterator[None]:
    """End this process with the stacks of its threads if the block takes longer than `limit`.

    faulthandler does so where code of a library, as that of an import, holds the GIL and no thread runs.
    """
    timer = threading.Timer(limit.total_seconds(), _end, (f"{stage} did not end within {limit.total_seconds():g} s",))
    timer.daemon = True
    faulthandler.dump_traceback_later(limit.total_seconds() + REPORTED_S, exit=True)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(error: str) -> None:
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.write(f"StageTimeoutError: {error}\n")
    sys.stderr.flush()
    os._exit(1)


STAGES: dict[str, Callable[[Any, Any], None]] = {"all-reduce": all_reduce, "pairs": pairs}


def main() -> None:
    given = SimpleNamespace(**json.loads(sys.argv[1]))
    meet(MINE, 30.0)
    report("barrier")
    with time_limited("import torch", IMPORT_LIMIT):
        importlib.import_module("torch")
    failure.watch()
    meet(MINE, IMPORT_LIMIT.total_seconds())  # One may import slowly.
    with time_limited("connecting all ranks and a small all-reduce", TIMEOUT + timedelta(seconds=15)):
        ranks = connected(MINE, given.backend, TIMEOUT)
        wrong = ranks.wrong(4096)
    report("correctness", wrong=wrong, framework=ranks.version, device=ranks.device_name)
    if wrong:
        sys.exit(f"all-reduce: {wrong} of 1024 elements on all ranks have a wrong value")
    for stage in given.stages:
        STAGES[stage](ranks, given)
        ranks.barrier()
        if MINE.rank == 0:
            report("end", stage=stage)
    ranks.close()


MINE: Any = place()

if __name__ == "__main__":
    main()
