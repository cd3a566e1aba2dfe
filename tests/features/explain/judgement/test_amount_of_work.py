"""The work of explaining grows with the size of the logs, and not with its square: counted in calls, not in time."""

import itertools
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tests.features.explain.judgement.verdicts import scanned, verdict_of

LINEAR = 2.4
"""Twice the size takes at most this many times the calls."""

FAILURES = (
    "[W socket.cpp:558] [c10d] The client socket has failed to connect to [head]:29411 (errno: 113 - No route).",
    "OSError: [Errno 28] No space left on device: '/ckpt'",
    "RuntimeError: CUDA error: out of memory",
    "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
)


def tracebacks(ranks: int) -> bytes:
    """Tracebacks of all ranks, mixed line by line, again and again."""
    chain = [
        "Traceback (most recent call last):",
        *('  File "/app/train.py", line 88, in step', "    loss = step(batch)") * 3,
        "ValueError: shape",
    ]
    lines = (f"[rank{rank}]: {line}" for _ in range(4) for line in chain for rank in range(ranks))
    return "\n".join(lines).encode() + b"\n"


def failures(ranks: int) -> bytes:
    """Warnings, roots and symptoms of every rank."""
    return "".join(f"[rank{rank}]: {line}\n" for rank, line in itertools.product(range(ranks), FAILURES)).encode()


LINES_OF_FACTS = """
n{n}:{n}:1 [0] NCCL INFO comm 0x{n:x} rank {n} nranks 65536 cudaDev 0 busId 1000 commId 0x{n:x} - Init START
n{n}:1:1 [0] NCCL INFO AllReduce: opCount {n:x} sendbuff 0 recvbuff 0 count 8 datatype 7 op 0 root 0 comm 0x1 [nranks=9]
GLOBAL_RANK: {n}, MEMBER: 1/65536
torchrun --nnodes=2 --nproc_per_node=8 --node_rank={n} --master_addr=n{n} train.py
| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |
export MASTER_PORT={n}
GLOO_SOCKET_IFNAME=eth{n}
eth{n}             UP             10.0.0.1/24
NCCL INFO NCCL_ALGO set by environment to {n}
NCCL INFO Bootstrap : Using eth0:10.0.{n}.1<0>
Node n{n}: NCCL version 2.{n}.3
[{n}] finished collective #{n}, but didn't join collective #{n}
broadcast.{n} [missing ranks: {n}]
Filesystem      Size  Used Avail Use% Mounted on
/dev/sd{n}  10G   10G  0 100% /data{n}
"""


def facts(ranks: int) -> bytes:
    """Lines that are compared, of every rank; all differ."""
    lines = LINES_OF_FACTS.strip().splitlines()
    pairs = itertools.product(range(ranks), lines)
    filled = (f"[rank{rank}]: {line.replace('{n:x}', f'{rank:x}').replace('{n}', str(rank))}" for rank, line in pairs)
    return "\n".join(filled).encode() + b"\n"


def calls(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, those of C included."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("content", [tracebacks, failures, facts])
def test_twice_the_ranks_take_twice_the_calls_to_search(content: Callable[[int], bytes]) -> None:
    half, whole = content(100), content(200)
    assert calls(lambda: scanned(whole)) <= LINEAR * calls(lambda: scanned(half))


@pytest.mark.parametrize("content", [tracebacks, failures, facts])
def test_twice_the_ranks_take_twice_the_calls_to_judge(content: Callable[[int], bytes]) -> None:
    half, whole = scanned(content(100)), scanned(content(200))
    assert calls(lambda: verdict_of([whole])) <= LINEAR * calls(lambda: verdict_of([half]))
