"""Holder of a GPU's memory, from the texts of PyTorch's allocator."""

import pytest

from tests.unit.verdict.logs.judged import cause_in, scanned

NEW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 1 has a total {} of {} of which {} is free. "
)
OWN = "Including non-PyTorch memory, this process has {} memory in use. "
SPLIT = "Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated."


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (NEW.format("2.00 GiB", "capacity", "79.11 GiB", "1.20 GiB") + OWN.format("77.90 GiB")
         + SPLIT.format("75.10 GiB", "1.20 GiB"), "gpu-memory"),
        (NEW.format("2.00 GiB", "capacity", "79.11 GiB", "1.20 GiB") + OWN.format("77.90 GiB")
         + SPLIT.format("50.10 GiB", "26.20 GiB"), "gpu-memory-fragmented"),
        (NEW.format("96.00 MiB", "capacty", "15.77 GiB", "41.44 MiB") + "Process 218840 has 15.02 GiB memory in use. "
         + OWN.format("600.00 MiB") + SPLIT.format("400.00 MiB", "20.00 MiB"), "gpu-memory-foreign"),
        (("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.93 GiB total capacity; 7.40 GiB "
         "already allocated; 25.38 MiB free; 7.60 GiB reserved in total by PyTorch)"), "gpu-memory"),
        (("RuntimeError: CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 79.15 GiB total capacity; 10.00 GiB "
         "already allocated;"), "gpu-memory"),
    ],
    ids=["own", "fragments", "foreign", "own, older", "cut off before the free memory"],
)  # fmt: skip
def test_the_message_of_the_allocator_names_the_holder(text: str, cause: str) -> None:
    assert cause_in([scanned(text)]).cause.id == cause
