"""torchrunx as its documentation shows it: python torchrunx_job.py SSH_CONFIG RANKS_PER_HOST HOST…"""

import sys
import time

import torchrunx


def first_line() -> str:
    """Run on every rank, in a process group that torchrunx created."""
    import torch.distributed as dist  # noqa: PLC0415 -- torchrunx sends this function alone to the nodes

    return f"FIRST {dist.get_rank()} {time.time():.4f}"


if __name__ == "__main__":
    launcher = torchrunx.Launcher(
        hostnames=sys.argv[3:], workers_per_host=int(sys.argv[2]), ssh_config_file=sys.argv[1], backend="gloo"
    )
    for lines in launcher.run(first_line).results.values():
        print(*lines, sep="\n", flush=True)
