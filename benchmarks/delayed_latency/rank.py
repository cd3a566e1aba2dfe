"""One rank: the latency stage of `pylaunch bench` in turns, without and with a delay in rank 1.

    rank.py TURNS MICROSECONDS

The stage and its loop are those of the package `ranks`, which lies beside this file on the nodes. Rank 1 waits so long
before each all-reduce, and twice so long before each answer of a round trip, of which the stage reports a half.
"""

import argparse
import itertools
import json
import sys
import time

import torch
from ranks import bench_rank
from ranks.collectives import Collectives, connected

from pylaunch.runtime.communication_test import TIMEOUT

PREFIX = "latency resolution: "
CLOCK_READINGS = 100_000


class DelayedCollectives(Collectives):
    """Collectives for which rank 1 waits."""

    delay = 0.0

    def prepared(self, operation, size):
        run, size = super().prepared(operation, size)
        delay = self.delay

        def later():
            wait(delay)
            run()

        return (later if self.rank == 1 and delay else run), size

    def round_trip(self, peer, size):
        delay, buffer = self.delay, self._ones(size // 4)

        def answer_later():
            self.dist.recv(buffer, peer)
            wait(2 * delay)
            self.dist.send(buffer, peer)

        return answer_later if self.rank == 1 and delay else super().round_trip(peer, size)


def wait(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def report(**fields):
    if bench_rank.MINE.rank == 1 or "turn" in fields:
        sys.stdout.write(PREFIX + json.dumps(fields) + "\n")
        sys.stdout.flush()


def clock_step():
    """Return the smallest difference of two readings in seconds."""
    readings = [time.perf_counter() for _ in range(CLOCK_READINGS)]
    return min(after - before for before, after in itertools.pairwise(readings) if after > before)


def waited(seconds):
    """Return the median length of a wait."""
    lengths = []
    for _ in range(1000):
        begun = time.perf_counter()
        wait(seconds)
        lengths.append(time.perf_counter() - begun)
    return sorted(lengths)[500]


def main():
    turns, delay = int(sys.argv[1]), float(sys.argv[2]) / 1e6
    connected(bench_rank.MINE, "gloo", TIMEOUT)
    ranks = DelayedCollectives(torch, bench_rank.MINE, "gloo")
    given = argparse.Namespace(rounds=[0])
    report(clock=clock_step(), waited=waited(delay))
    for turn in range(turns):
        for ranks.delay in (0.0, delay) if turn % 2 else (delay, 0.0):
            if bench_rank.MINE.rank == 0:
                report(turn=turn, delayed=bool(ranks.delay))
            bench_rank.latency(ranks, given)
    ranks.close()


if __name__ == "__main__":
    main()
