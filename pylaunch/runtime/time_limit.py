"""Limit the time of a stage of a rank: a stage that does not end within its limit ends the rank."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
from datetime import timedelta
from typing import Iterator

from pylaunch.runtime import failure

REPORTED_S = 2.0
"""For Python code to end a rank that exceeded its limit; then faulthandler ends it without the GIL."""


class StageTimeoutError(Exception):
    """A stage did not end within its limit."""


@contextlib.contextmanager
def time_limited(stage: str, limit: timedelta) -> Iterator[None]:
    """End this process with StageTimeoutError and the stacks of its threads if the block takes longer than `limit`."""
    seconds = limit.total_seconds()
    timer = threading.Timer(seconds, _end, (stage, seconds))
    timer.daemon = True
    faulthandler.dump_traceback_later(seconds + REPORTED_S, exit=True)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _end(stage: str, seconds: float) -> None:
    error = StageTimeoutError(f"{stage} did not end within {seconds:g} s")
    failure.keep(error)
    faulthandler.dump_traceback(all_threads=True)
    sys.stderr.write(f"{StageTimeoutError.__name__}: {error}\n")
    sys.stderr.flush()
    os._exit(1)
