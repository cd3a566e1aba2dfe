"""Short computation on every GPU in the interpreter of the ranks: success, correctness, speed."""

from __future__ import annotations

import json
from typing import Any, Mapping

from pylaunch.agent.probe.readers.devices.gpu import is_here
from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import programs
from pylaunch.protocol.readings.devices import SmokeReading

DEADLINE_S = 50.0
"""Time to import PyTorch from a slow disk and to start CUDA on eight devices; the computation takes a second."""

SIZE = 4096
"""Rows and columns. Every element of the product of two matrices of ones is SIZE, which is exact in bfloat16."""

PROGRAM = """\
import json, sys, time
import torch
found = []
size = int(sys.argv[1])
for index in map(int, sys.argv[2:]):
    try:
        one = torch.ones(size, size, dtype=torch.bfloat16, device=f"cuda:{index}")
        for _ in range(5):
            product = one @ one
        torch.cuda.synchronize(index)
        begun = time.perf_counter()
        for _ in range(50):
            product = one @ one
        torch.cuda.synchronize(index)
        seconds = time.perf_counter() - begun
        rate = 50 * 2 * size**3 / seconds / 1e12
        found.append({"index": index, "right": bool((product == size).all()), "tflops": rate})
    except (RuntimeError, AssertionError) as error:
        found.append({"index": index, "error": str(error).splitlines()[0][:300]})
print(json.dumps(found))
"""


@reader("gpu_smoke.compute", 55.0)
def smoke(question: Mapping[str, Any]) -> SmokeReading | None:
    """Compute on `devices` with the interpreter `python` of the question; None without NVIDIA's devices."""
    return compute(question) if is_here() else None


def compute(question: Mapping[str, Any]) -> SmokeReading:
    """Return a result or an error per device, or the reason why the program failed."""
    words = [question["python"], "-c", PROGRAM, str(SIZE), *map(str, question["devices"])]
    try:
        ended = programs.ended(words, deadline_s=DEADLINE_S, environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    except FileNotFoundError:
        return {"error": f"no interpreter at {question['python']}"}
    except TimeoutError:
        return {"error": f"no answer from CUDA within {DEADLINE_S:.0f} s"}
    if ended.status != 0:
        errors = ended.errors.strip().splitlines() or ["no output"]
        return {"error": f"exit status {ended.status}: {errors[-1][:300]}"}
    return {"devices": json.loads(ended.output.splitlines()[-1])}
