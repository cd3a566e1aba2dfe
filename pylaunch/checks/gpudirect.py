"""GPUDirect RDMA: the mechanism by which a network adapter reads the memory of a GPU. Pure."""

import re

DMABUF_KERNEL = (5, 12)
"""From this kernel on, NVIDIA's open module exports device memory as dma-buf, and needs no nvidia_peermem."""


def exports_dma_buf(*, open_module: bool, kernel: str) -> bool:
    """Return True if device memory is reached without nvidia_peermem. `kernel` is its release: "6.8.0-45-generic"."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", kernel)[:2])
    return open_module and numbers >= DMABUF_KERNEL
