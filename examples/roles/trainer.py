"""Trainers that take samples from the rollout servers and send them new weights.

python trainer.py HOST:PORT,… [STEPS]
"""

import io
import sys
import urllib.request

import torch
import torch.distributed as dist

from pylaunch import runtime

servers = sys.argv[1].split(",")
steps = int(sys.argv[2]) if sys.argv[2:] else 20
runtime.init()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def ask(path: str, body: bytes | None = None, method: str = "GET") -> list[bytes]:
    """Return the answers of all servers."""
    requests = [urllib.request.Request(f"http://{server}{path}", data=body, method=method) for server in servers]
    return [urllib.request.urlopen(request, timeout=30).read() for request in requests]


for step in range(1, steps + 1):
    samples = [torch.load(io.BytesIO(each), weights_only=True) for each in ask("/samples")]
    inputs = torch.cat([each[0] for each in samples])
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    runtime.step(step, steps)
    if runtime.is_main():
        weights = io.BytesIO()
        torch.save(model.module.state_dict(), weights)
        ask("/weights", weights.getvalue(), "PUT")
        print(f"step {step}/{steps} loss {loss.item():.4f}", flush=True)
    dist.barrier()
dist.destroy_process_group()
