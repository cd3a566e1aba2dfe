"""Train a small model in replica groups: gradients are averaged within a group by DDP, between groups by torchft.

A group that starts again gets weights and step from the others. Without others it would start at step 0: save
`manager.state_dict()` with your checkpoints, and load it.
"""

import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torchft import Manager, Optimizer, ProcessGroupGloo

from pylaunch import runtime

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--step-s", type=float, default=0.1, help="seconds of computing in each step")
arguments = parser.parse_args()

runtime.init()  # The ranks of this group; torchft uses their store.
torch.set_num_threads(1)
torch.manual_seed(20)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
sgd = torch.optim.SGD(model.parameters(), lr=0.01)
group = os.environ["PYLAUNCH_REPLICA"]
data = torch.Generator().manual_seed(1000 * int(group) + dist.get_rank())


def load(state: dict[str, dict[str, object]]) -> None:
    """Take the state of another group."""
    model.load_state_dict(state["model"])
    sgd.load_state_dict(state["sgd"])


manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=10)),
    load_state_dict=load,
    state_dict=lambda: {"model": model.state_dict(), "sgd": sgd.state_dict()},
    min_replica_size=1,
    replica_id=f"group-{group}",
    hostname=os.environ["MASTER_ADDR"],
    timeout=timedelta(seconds=10),
)
optimizer = Optimizer(manager, sgd)
while manager.current_step() < arguments.steps:
    optimizer.zero_grad()  # Asks which groups take part.
    inputs = torch.randn(32, 64, generator=data)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    loss.backward()
    time.sleep(arguments.step_s)  # noqa: TID251 (in place of a larger model)
    for work in [manager.allreduce(parameter.grad) for parameter in model.parameters()]:
        work.wait()
    before = manager.current_step()
    optimizer.step()  # Only if no rank of any group failed.
    step = manager.current_step()
    if dist.get_rank() == 0:
        done = "done" if step > before else "lost"
        print(f"step {step} {done} with {manager.num_participants()} groups, loss {loss.item():.3f}", flush=True)
    runtime.step(step, arguments.steps)
manager.shutdown()
dist.destroy_process_group()
