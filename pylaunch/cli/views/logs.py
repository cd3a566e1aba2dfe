"""Copy the logs of a run here, and print where they are."""

from pathlib import Path

from pylaunch.model.run import RunRecord
from pylaunch.model.text.size import shown_size
from pylaunch.runs.connect.interruptible import InterruptSource, signals
from pylaunch.runs.logs import collect_logs
from pylaunch.terminal import console


def copy_logs(record: RunRecord, directory: Path, interrupts: InterruptSource = signals) -> None:
    """Copy all logs to `directory`. Raises UsageError where a file cannot be written."""
    collected = collect_logs(record, directory, lambda notice: console.say(notice.text), interrupts)
    console.say(f"collected {len(collected.files)} logs ({shown_size(collected.size)}) in {directory}")
