"""Every GPU computes a moment, in the interpreter of the ranks: does it work, is it right, how fast is it."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Mapping

from pylaunch.agent.probe.readers.gpu import is_here
from pylaunch.agent.probe.registry import reader

if TYPE_CHECKING:
    from pylaunch.agent.probe.device_readings import SmokeReading

DEADLINE_S = 50.0
"""Importing PyTorch from a slow disk and starting CUDA on eight devices; the computing itself takes a second."""

SIZE = 4096
"""Rows and columns. The product of two matrices of ones has SIZE everywhere, which bfloat16 holds exactly."""

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
    """Question: {"python", "devices"}. None where there is nothing of NVIDIA's."""
    return compute(question) if is_here() else None


def compute(question: Mapping[str, Any]) -> SmokeReading:
    """{"devices": [{"index", "right", "tflops"} or {"index", "error"}]}, or {"error": why there is no answer}."""
    words = [question["python"], "-c", PROGRAM, str(SIZE), *map(str, question["devices"])]
    try:
        ended = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False,
            env=dict(os.environ, CUDA_DEVICE_ORDER="PCI_BUS_ID"),
        )  # fmt: skip
    except FileNotFoundError:
        return {"error": f"no interpreter at {question['python']}"}
    except subprocess.TimeoutExpired:
        return {"error": f"no answer from CUDA within {DEADLINE_S:.0f} s"}
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["no word"]
        return {"error": f"exit status {ended.returncode}: {said[-1][:300]}"}
    return {"devices": json.loads(ended.stdout.decode().splitlines()[-1])}
