"""Bandwidths of a cluster that later measurements are compared with: `.pylaunch/bench-baseline.json`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from pylaunch.errors import UsageError
from pylaunch.features.bench.judgement.baseline import Baseline, Level
from pylaunch.store.whole_file import SHARED, write_whole


class _BaselineRow(msgspec.Struct, frozen=True):
    operation: str
    bytes: int
    busbw_gbps: float
    noise: float


class _BaselineFile(msgspec.Struct, frozen=True):
    conditions: str
    made_at: str
    levels: list[_BaselineRow]


def read_baseline(path: Path) -> Baseline | None:
    """Return the baseline in `path`; None if there is no file. Raises UsageError if it cannot be read."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        file = msgspec.json.decode(text, type=_BaselineFile)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: {error}", hint="make a new one: pylaunch bench --save-baseline") from None
    levels = {(row.operation, row.bytes): Level(row.busbw_gbps, row.noise) for row in file.levels}
    return Baseline(file.conditions, file.made_at, levels)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write `baseline` to `path`, whole or not at all. Raises UsageError."""
    rows = [
        {"operation": operation, "bytes": size, "busbw_gbps": level.bandwidth, "noise": level.noise}
        for (operation, size), level in sorted(baseline.levels.items())
    ]
    text = json.dumps({"conditions": baseline.conditions, "made_at": baseline.made_at, "levels": rows}, indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{text}\n".encode(), SHARED)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
