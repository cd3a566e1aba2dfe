"""Backend of torch's process group, which `pylaunch start --fallback` may change after NCCL failed."""

import os

from pylaunch.runtime.patience import log

VARIABLE = "PYLAUNCH_BACKEND"
"""Set for an attempt that must not use NCCL."""


def backend(preferred: str = "nccl") -> str:
    """Return the backend for `torch.distributed.init_process_group`: `preferred`, or the one of the fallback.

    A change is logged by each rank.
    """
    chosen = os.environ.get(VARIABLE, "")
    if not chosen or chosen == preferred:
        return preferred
    log(f"{chosen} instead of {preferred} ({VARIABLE})")
    return chosen
