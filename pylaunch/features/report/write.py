"""Write the HTML report of a run: its record, and the last lines of its ranks where nodes answer."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

from pylaunch import __version__
from pylaunch.features.report.host_ranks import ONE_LOG, SHOWN_LINES
from pylaunch.features.report.log_ends import read_ends
from pylaunch.features.report.page import ReportInput, page
from pylaunch.inventory.known_secrets import known_secrets
from pylaunch.model.run import RunRecord
from pylaunch.model.text.redaction import Redaction
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.store.new_file import new_file, refuse_existing

DEADLINE_S = 20.0
"""For the last lines of all ranks."""


def write_report(record: RunRecord, file: Path, complete: Callable[[str], str] = str) -> tuple[int, tuple[str, ...]]:
    """Write the report of `record` to `file`, with the last lines of ranks from their nodes.

    Secrets, also those in variables of this process, are masked. `complete` adds the inventory to a hint. Returns the
    size and the reasons for missing content, one line each. Raises UsageError if `file` exists or cannot be written.
    """
    refuse_existing(file)
    content = report_content(record)
    data = page(content, Redaction(known_secrets(record.plan, os.environ)).hide, complete).encode("utf-8", "replace")
    with new_file(file) as out:
        out.write(data)
    return len(data), content.missing


def report_content(record: RunRecord) -> ReportInput:
    """Return everything that is known about the run, with the last lines of its ranks where nodes answer."""
    logs, missing = _last_lines(record)
    return ReportInput(record, time.time(), logs, versions(record), missing)


def versions(record: RunRecord) -> dict[str, str]:
    """Return the versions of pylaunch, of the agent of the run, and of Python and the system of this machine."""
    return {
        "pylaunch": __version__,
        "agent": record.agent,
        "Python": platform.python_version(),
        "system": platform.platform(),
    }


def _last_lines(record: RunRecord) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return the last lines by rank, of stderr, or of stdout where stderr is empty; and why lines are missing."""
    if not record.has_started:
        return {}, ()
    found = read_ends(record, rank_streams(record.plan), SHOWN_LINES, ONE_LOG, DEADLINE_S)
    logs: dict[int, str] = {}
    for (_, stream), text in found.texts.items():
        rank, _, channel = stream.partition(".")
        if text.strip() and (channel == "err" or int(rank) not in logs):
            logs[int(rank)] = text
    return logs, found.missing
