"""Uncorrectable memory errors and load of NVIDIA's GPUs, from nvidia-smi with a deadline.

A driver that hangs keeps nvidia-smi in the kernel, where no signal ends it. The agent leaves it alone until the end of
the run, and starts no other one until it has ended.
"""

from __future__ import annotations

import select
import subprocess
import threading
import time

from pylaunch.agent.shared.programs import ProgramOutput, path_of
from pylaunch.base.dataclass import dataclass, field

QUERY = ("index", "ecc.errors.uncorrected.volatile.total", "temperature.gpu", "utilization.gpu", "memory.used")
"""Fields of `nvidia-smi --help-query-gpu`."""

ERRORS = "ecc_uncorrected"
GAUGES = ("temperature", "utilization", "memory used")
MEBIBYTE = 1 << 20
MOST_BYTES = 1 << 16
LONGEST = 200


@dataclass(frozen=True)
class GpuCounters:
    """Answer of nvidia-smi."""

    counters: dict[str, int] = field(default_factory=dict)
    """Uncorrectable memory errors since the driver was loaded, by name: "gpu3 ecc_uncorrected"."""

    gauges: dict[str, float] = field(default_factory=dict)
    """Degrees Celsius, percent and bytes by name: "gpu3 temperature"."""

    missing: str = ""
    """Reason why values are missing."""


def parse(output: str) -> GpuCounters:
    """Return the values in the output for QUERY without header and units; a line of another form is a complaint."""
    counters: dict[str, int] = {}
    gauges: dict[str, float] = {}
    complaint = ""
    for line in output.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(QUERY) or not words[0].isdigit():
            complaint = complaint or line.strip()[:LONGEST]
            continue
        gpu = f"gpu{int(words[0])}"
        if words[1].isdigit():
            counters[f"{gpu} {ERRORS}"] = int(words[1])
        for name, word in zip(GAUGES, words[2:]):
            if word.isdigit():  # "[N/A]" where the GPU does not report it.
                gauges[f"{gpu} {name}"] = float(word) * (MEBIBYTE if name == "memory used" else 1)
    return GpuCounters(counters, gauges, f"GPUs: nvidia-smi: {complaint}" if complaint else "")


class GpuReader:
    """Calls nvidia-smi, once at a time. Its method may be called by any thread."""

    def __init__(self) -> None:
        self._program = path_of("nvidia-smi")
        self._lock = threading.Lock()
        self._output: ProgramOutput | None = None

    def read(self, until: float) -> GpuCounters:
        """Return the values of all GPUs; nothing without nvidia-smi. `until` is monotonic."""
        if self._program is None:
            return GpuCounters()
        with self._lock:
            if self._output is not None and self._output.child.poll() is None:
                return GpuCounters(missing="GPUs: an earlier call of nvidia-smi has not ended")
            words = [self._program, "--query-gpu=" + ",".join(QUERY), "--format=csv,noheader,nounits"]
            try:
                self._output = ProgramOutput(words, MOST_BYTES, errors=subprocess.STDOUT)
            except OSError as error:
                return GpuCounters(missing=f"GPUs: {self._program}: {error.strerror}")
            in_time = True
            while in_time and not self._output.has_ended():
                in_time = bool(select.select([self._output.descriptor], [], [], max(0.0, until - time.monotonic()))[0])
            self._output.close()
            answer = self._output.text.decode("utf-8", "replace")
        return parse(answer) if in_time else GpuCounters(missing="GPUs: no answer of nvidia-smi in time")
