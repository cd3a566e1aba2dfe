"""Backend of torch's process group, which `pylaunch start --fallback` may change after NCCL failed."""

import os
import sys

VARIABLE = "PYLAUNCH_BACKEND"
"""Set for an attempt that must not use NCCL."""


def backend(preferred: str = "nccl") -> str:
    """Return the backend for `torch.distributed.init_process_group`: `preferred`, or the one of the fallback.

    A change is logged by each rank.
    """
    chosen = os.environ.get(VARIABLE, "")
    if not chosen or chosen == preferred:
        return preferred
    sys.stderr.write(f"pylaunch: {chosen} instead of {preferred} ({VARIABLE})\n")
    sys.stderr.flush()
    return chosen
