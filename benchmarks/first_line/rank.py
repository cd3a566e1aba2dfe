"""The script that every launcher starts: one gloo rank that prints when its process group is ready."""

import os
import time

import torch.distributed as dist

for ours, theirs in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
    os.environ.setdefault(ours, os.environ.get(theirs, ""))
dist.init_process_group("gloo")
print(f"FIRST {dist.get_rank()} {time.time():.4f}", flush=True)
dist.barrier()
dist.destroy_process_group()
