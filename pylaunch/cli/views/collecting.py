"""Copy the logs of a run here, and print where they are."""

from __future__ import annotations

from pathlib import Path

from pylaunch.launch.connect.interruptible import signals
from pylaunch.model.run import RunRecord
from pylaunch.model.size import shown_size
from pylaunch.terminal import console
from pylaunch.workflows.logs import collect_logs


def collect(record: RunRecord, directory: Path) -> None:
    """Copy all logs to `directory`. Raises UsageError where a file cannot be written."""
    collected = collect_logs(record, directory, lambda notice: console.say(notice.text), signals)
    console.say(f"collected {len(collected.files)} logs ({shown_size(collected.size)}) in {directory}")
