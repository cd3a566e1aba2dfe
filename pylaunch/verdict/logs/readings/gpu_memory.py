"""Holder of a GPU's memory, from the message of PyTorch's allocator: this process, another one, or fragments. Pure."""

import re

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.readings.clue import Clue
from pylaunch.verdict.logs.scan import LogMatch

_SIZE = r"(\d{1,7}(?:\.\d{1,4})?) ?([KMGT]i?B|bytes)"
_UNITS = {"bytes": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_CAPACITY = re.compile(rf"total capaci?ty of {_SIZE}|{_SIZE} total capacity")
_FREE = re.compile(rf"of which {_SIZE} is free|{_SIZE} free")
_OTHER = re.compile(rf"Process (\d{{1,9}}) has {_SIZE} memory in use")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_ALLOCATED = re.compile(rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated")
_RESERVED_FREE = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(rf"{_SIZE} reserved in total by PyTorch")
OTHERS_SHARE = 0.25
"""Share of the GPU that another process must hold to be the cause."""


def read_gpu_memory(match: LogMatch, facts: LogFacts) -> Clue:
    """Return the reading of "CUDA out of memory"."""
    text = " ".join((match.text, match.groups.get("rest", "")))
    need = _bytes(re.search(_SIZE, match.groups["need"])) or 0.0
    capacity = _bytes(_CAPACITY.search(text))
    allocated = _bytes(_ALLOCATED.search(text)) or 0.0
    if capacity:
        if (other := _other(text, capacity, allocated)) is not None:
            return other
        loose = _bytes(_RESERVED_FREE.search(text))
        reserved = _bytes(_RESERVED.search(text))
        if loose is None and reserved is not None:
            loose = reserved - allocated
        if loose is not None and loose > max(need, 0.1 * capacity):
            share = f"{_shown(loose)} are reserved but not allocated"
            return Clue("gpu-memory-fragmented", f"GPU memory is fragmented: {share}", Confidence.MEDIUM, because=share)
        return Clue("gpu-memory", f"the process needs more than the {_shown(capacity)} of its GPU", Confidence.HIGH)
    return Clue("gpu-memory", f"{match.groups['need']} of GPU memory could not be allocated", Confidence.MEDIUM)


def _other(text: str, capacity: float, allocated: float) -> Clue | None:
    """Return the reading of memory that another process holds."""
    holders = [(found[1], _bytes(found, 2) or 0.0) for found in _OTHER.finditer(text)]
    if holders and (_OWN.search(text) or allocated < 0.5 * capacity):
        pid, held = max(holders, key=lambda holder: holder[1])
        if held > OTHERS_SHARE * capacity and allocated < 0.9 * held:
            because = f"process {pid} holds {_shown(held)} of {_shown(capacity)}"
            if not _OWN.search(text) and len({each for each, _ in holders}) == 1:
                # In a container PyTorch does not know its own process by the number that the driver has.
                means = f"the GPU's memory is held by another process, or by this one outside PyTorch: {because}"
                return Clue("gpu-memory-foreign", means, Confidence.MEDIUM, because=because, also=("gpu-memory",))
            return Clue("gpu-memory-foreign", f"another process holds the GPU's memory: {because}",
                           Confidence.HIGH if _OWN.search(text) else Confidence.MEDIUM, because=because)  # fmt: skip
    reserved, free = _bytes(_RESERVED.search(text)), _bytes(_FREE.search(text))
    if reserved is not None and free is not None and capacity - reserved - free > max(0.3 * capacity, 2.0**31):
        held = capacity - reserved - free
        because = f"{_shown(held)} of {_shown(capacity)} are neither free nor PyTorch's"
        return Clue("gpu-memory-foreign", f"another process holds the GPU's memory: {because}", Confidence.MEDIUM,
                       because=because)  # fmt: skip
    return None


def _bytes(found: re.Match[str] | None, at: int = 1) -> float | None:
    if found is None:
        return None
    groups = [each for each in found.groups()[at - 1 :] if each]
    number, unit = groups[0], groups[1]
    return float(number) * _UNITS["bytes" if unit == "bytes" else unit[0]]


def _shown(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
