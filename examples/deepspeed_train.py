"""Train a small network on handwritten digits with DeepSpeed, ZeRO stage 1. The script does not depend on pylaunch.

    pylaunch start -i cluster.ini --framework deepspeed -- \\
        examples/deepspeed_train.py --deepspeed --deepspeed_config examples/deepspeed.json
"""

from __future__ import annotations

import argparse
import gc
import platform

import deepspeed
import torch
import torch.distributed.nn  # imported later, it would keep a reference to the process group
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the data (default: %(default)s)")
    parser.add_argument("--local_rank", type=int, default=-1, help="passed by DeepSpeed's launcher")
    deepspeed.add_config_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    if deepspeed.accelerator.get_accelerator().device_name() == "cpu":
        # On CPUs, DeepSpeed compiles an op for ranks that share memory, on every host. gloo needs no compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed()
    train(arguments)
    # Free every reference to the process group before it is destroyed, or its threads outlive Python: see train_ddp.py.
    gc.collect()
    deepspeed.comm.destroy_process_group()


def train(arguments: argparse.Namespace) -> None:
    torch.manual_seed(20)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    engine, _, batches, _ = deepspeed.initialize(
        args=arguments,
        model=model,
        model_parameters=model.parameters(),
        training_data=TensorDataset(images, torch.tensor(digits.target)),
    )
    rank, world_size = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
    print(f"rank {rank} of {world_size} on {platform.node()}: ZeRO {engine.zero_optimization_stage()}", flush=True)

    for epoch in range(arguments.epochs):
        total = torch.zeros((), device=engine.device)
        for inputs, labels in batches:
            loss = nn.functional.cross_entropy(engine(inputs.to(engine.device)), labels.to(engine.device))
            engine.backward(loss)
            engine.step()
            total += loss.detach()
        mean = total / len(batches)
        deepspeed.comm.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch + 1}/{arguments.epochs}  loss {mean.item() / world_size:.4f}", flush=True)
    if rank == 0:
        print(f"trained on {world_size} ranks", flush=True)
    deepspeed.comm.barrier()
    engine.destroy()


if __name__ == "__main__":
    main()
