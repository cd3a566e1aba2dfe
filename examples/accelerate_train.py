"""Train a small network on handwritten digits with Hugging Face Accelerate. The script does not depend on pylaunch.

pylaunch start -i cluster.ini --framework accelerate -- examples/accelerate_train.py --epochs 10
"""

from __future__ import annotations

import argparse
import platform

import torch
import torch.distributed.nn  # imported later, it would keep a reference to the process group
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the data (default: %(default)s)")
    arguments = parser.parse_args()

    accelerator = Accelerator()
    set_seed(20)
    print(
        f"rank {accelerator.process_index} of {accelerator.num_processes} on {platform.node()}: "
        f"{accelerator.distributed_type.value}, {accelerator.device}",
        flush=True,
    )

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    batches = DataLoader(TensorDataset(images, torch.tensor(digits.target)), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model, optimizer, batches = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), batches)

    for epoch in range(arguments.epochs):
        total = torch.zeros((), device=accelerator.device)
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            total += loss.detach()
        mean = accelerator.reduce(total / len(batches), reduction="mean").item()
        accelerator.print(f"epoch {epoch + 1}/{arguments.epochs}  loss {mean:.4f}", flush=True)
    accelerator.print(f"trained on {accelerator.num_processes} ranks", flush=True)
    accelerator.wait_for_everyone()
    # Free every reference to the process group before it is destroyed, or its threads outlive Python: see train_ddp.py.
    model, optimizer, batches = accelerator.free_memory(model, optimizer, batches)
    accelerator.end_training()


if __name__ == "__main__":
    main()
