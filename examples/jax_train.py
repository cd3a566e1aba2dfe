"""Fit a linear model with JAX on all processes of a run, on CPUs (gloo) or GPUs (NCCL).

The script does not depend on pylaunch: `jax.distributed.initialize()` reads the environment that pylaunch sets.

    pylaunch start -i cluster.ini --framework jax -- examples/jax_train.py --steps 200
"""

from __future__ import annotations

import argparse
import platform

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FEATURES = 8
ROWS_PER_DEVICE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit a linear model with JAX.")
    parser.add_argument("--steps", type=int, default=200, help="steps of gradient descent (default: %(default)s)")
    arguments = parser.parse_args()

    jax.distributed.initialize()
    rank, devices = jax.process_index(), jax.devices()
    print(
        f"process {rank} of {jax.process_count()} on {platform.node()}: {len(jax.local_devices())} of {len(devices)} "
        f"devices, {devices[0].platform}, JAX {jax.__version__}",
        flush=True,
    )

    truth = np.linspace(-1.0, 1.0, FEATURES, dtype=np.float32)
    generator = np.random.default_rng(rank)
    rows = generator.normal(size=(ROWS_PER_DEVICE * len(jax.local_devices()), FEATURES)).astype(np.float32)
    split = NamedSharding(Mesh(np.array(devices), ("data",)), PartitionSpec("data"))
    inputs = jax.make_array_from_process_local_data(split, rows)
    targets = jax.make_array_from_process_local_data(split, rows @ truth)

    @jax.jit
    def step(weights: jax.Array, inputs: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(lambda weights: jnp.mean((inputs @ weights - targets) ** 2))(weights)
        return weights - 0.1 * gradient, loss

    weights = jnp.zeros(FEATURES)
    for _ in range(arguments.steps):
        weights, loss = step(weights, inputs, targets)
    if rank == 0:
        print(f"fitted on {jax.process_count()} processes: loss {float(loss):.6f}", flush=True)


if __name__ == "__main__":
    main()
