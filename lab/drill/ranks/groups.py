"""Libraries in which the ranks of a drill meet, behind one interface."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Protocol

STEP_S = 0.05


class Group(Protocol):
    """Ranks that meet in collectives."""

    def reduce(self) -> None:
        """Sum over all ranks."""

    def close(self) -> None:
        """Leave."""


class Alone:
    """Ranks that do not communicate."""

    def reduce(self) -> None:
        time.sleep(STEP_S)

    def close(self) -> None:
        pass


class Torch:
    """torch.distributed with gloo."""

    def __init__(self, timeout_s: float = 1800.0) -> None:
        import torch
        import torch.distributed
        import torch.distributed.nn  # imported later, it would keep a reference to the process group

        torch.set_num_threads(1)
        self.torch = torch
        self.distributed = torch.distributed
        torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))

    def reduce(self, size: int = 4) -> None:
        self.distributed.all_reduce(self.torch.ones(size))

    def close(self) -> None:
        self.distributed.barrier()
        self.distributed.destroy_process_group()


class Jax:
    """jax.distributed."""

    def __init__(self) -> None:
        import jax
        from jax.experimental import multihost_utils

        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize()
        self.utilities = multihost_utils
        self.value = jax.numpy.ones(4)

    def reduce(self) -> None:
        self.utilities.process_allgather(self.value)

    def close(self) -> None:
        self.utilities.sync_global_devices("end")


class Accelerate:
    """Hugging Face Accelerate."""

    def __init__(self) -> None:
        import torch
        import torch.distributed.nn
        from accelerate import Accelerator

        self.accelerator = Accelerator(cpu=True)
        self.torch = torch

    def reduce(self) -> None:
        self.accelerator.reduce(self.torch.ones(4))

    def close(self) -> None:
        self.accelerator.wait_for_everyone()
        self.accelerator.end_training()


class DeepSpeed:
    """DeepSpeed's communication."""

    def __init__(self) -> None:
        import deepspeed
        import torch
        import torch.distributed.nn

        # On CPUs, DeepSpeed compiles an op for ranks that share memory. gloo needs no compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed("gloo")
        self.communication: Any = deepspeed.comm
        self.torch = torch

    def reduce(self) -> None:
        self.communication.all_reduce(self.torch.ones(4))

    def close(self) -> None:
        self.communication.barrier()
        self.communication.destroy_process_group()


GROUPS = {"plain": Alone, "torch": Torch, "jax": Jax, "accelerate": Accelerate, "deepspeed": DeepSpeed}
