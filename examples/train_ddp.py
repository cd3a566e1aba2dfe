"""Train a small network on handwritten digits with PyTorch DDP, on CPUs (gloo) or GPUs (NCCL).

The data is part of scikit-learn: 1797 images of 8 x 8 pixels. The script does not depend on pylaunch. Run it with:

    pylaunch start -i cluster.ini -- examples/train_ddp.py --epochs 20
    torchrun --nproc-per-node 2 examples/train_ddp.py --epochs 20
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn  # must precede init_process_group: see `main`
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SEED = 20
HELD_OUT = 360
"""Number of images for measuring the accuracy, a fifth of all."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=15, help="passes over the data (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=24, help="images per rank and step (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="of AdamW (default: %(default)s)")
    parser.add_argument(
        "--checkpoint", type=Path, default=Path("digits.pt"), help="file that each node writes after each epoch"
    )
    parser.add_argument("--resume", action="store_true", help="resume from the checkpoint; a restarted run always does")
    return parser.parse_args()


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Return the training images and the held-out images, with the same split on every rank."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))
    kept, held_out = order[HELD_OUT:], order[:HELD_OUT]
    return TensorDataset(images[kept], labels[kept]), TensorDataset(images[held_out], labels[held_out])


def build_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(64, 10),
    )  # fmt: skip


def save(checkpoint: Path, state: dict[str, object]) -> None:
    """Write a temporary file, then rename it, so that the checkpoint is complete even if this process dies."""
    with tempfile.NamedTemporaryFile(dir=checkpoint.parent, prefix=f".{checkpoint.name}.", delete=False) as aside:
        torch.save(state, aside)
        aside.flush()
        os.fsync(aside.fileno())
    Path(aside.name).replace(checkpoint)


def is_restart() -> bool:
    """Return True if an earlier attempt of this run failed. torchrun and pylaunch set the variable."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def furthest(checkpoint: Path) -> dict[str, Any] | None:
    """Return the newest checkpoint of all nodes, on every rank. A node that is new to the run has none."""
    own = torch.load(checkpoint, map_location="cpu", weights_only=True) if checkpoint.exists() else None
    epochs = [-1] * dist.get_world_size()
    dist.all_gather_object(epochs, -1 if own is None else own["epoch"])
    if max(epochs) < 0:
        return None
    source = epochs.index(max(epochs))
    box = [own if dist.get_rank() == source else None]
    dist.broadcast_object_list(box, src=source)
    return box[0]


@torch.no_grad()
def accuracy(model: nn.Module, held_out: TensorDataset, device: torch.device) -> float:
    model.eval()
    images, labels = (tensor.to(device) for tensor in held_out.tensors)
    right = (model(images).argmax(dim=1) == labels).float().mean().item()
    model.train()
    return right


def mean_over_ranks(value: torch.Tensor) -> float:
    dist.all_reduce(value)
    return value.item() / dist.get_world_size()


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(SEED)
    training, held_out = load_data()
    model = build_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    first_epoch = 0
    state = furthest(arguments.checkpoint) if arguments.resume or is_restart() else None
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch = state["epoch"] + 1
    parallel = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    sampler = DistributedSampler(training, seed=SEED)
    batches = DataLoader(training, batch_size=arguments.batch_size, sampler=sampler)
    loss_of = nn.CrossEntropyLoss()

    for epoch in range(first_epoch, arguments.epochs):
        started = time.perf_counter()
        sampler.set_epoch(epoch)
        total = torch.zeros((), device=device)
        for images, labels in batches:
            optimizer.zero_grad()
            loss = loss_of(parallel(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        loss_of_epoch = mean_over_ranks(total / len(batches))
        if rank == 0:
            seconds = time.perf_counter() - started
            print(
                f"epoch {epoch + 1:2d}/{arguments.epochs}  loss {loss_of_epoch:.4f}  "
                f"held-out accuracy {accuracy(model, held_out, device):.1%}  {seconds:.2f} s",
                flush=True,
            )
        if int(os.environ["LOCAL_RANK"]) == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            save(arguments.checkpoint, state)
    if rank == 0:
        final = accuracy(model, held_out, device)
        print(
            f"trained on {world_size} ranks: held-out accuracy {final:.1%}, checkpoint {arguments.checkpoint}",
            flush=True,
        )
    dist.barrier()  # no rank exits while another still works


def main() -> None:
    """Train, and leave no gloo thread behind.

    If a gloo thread still releases a tensor while Python exits, the thread aborts the rank (PyTorch issue 190489).
    Destroying the process group ends these threads, but only if nothing else references the group. Two things do: the
    model in its DistributedDataParallel, which is freed when `train` returns, and `torch.distributed.nn`, whose
    functions reference the group that exists when they are imported, so it is imported before the group is created.
    """
    arguments = parse_arguments()
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=2))
    try:
        print(
            f"rank {dist.get_rank()} of {dist.get_world_size()} on {platform.node()}: {backend}, {device}, "
            f"PyTorch {torch.__version__}",
            flush=True,
        )
        train(arguments, device)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
