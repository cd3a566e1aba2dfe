"""All-reduce in a plain torch loop, as a user would time it: torchrun … all_reduce.py ITERATIONS SIZE…

Prints one line of JSON for each size in bytes: the median of five parts of the iterations, on the slowest rank.
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

WARM_UP, PARTS, SECONDS = 5, 5, 0.5


def timed(buffer: torch.Tensor, count: int) -> float:
    dist.barrier()
    begun = time.perf_counter()
    for _ in range(count):
        dist.all_reduce(buffer)
    seconds = torch.tensor([(time.perf_counter() - begun) / count], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return float(seconds.item())


dist.init_process_group("gloo")
most, *sizes = map(int, sys.argv[1:])
for size in sizes:
    data = torch.zeros(size // 4)
    iterations = max(PARTS, min(most, int(SECONDS / timed(data, WARM_UP))))
    found = statistics.median(timed(data, iterations // PARTS) for _ in range(PARTS))
    if dist.get_rank() == 0:
        print(json.dumps({"bytes": size, "seconds": found}), flush=True)
dist.destroy_process_group()
