"""SIGTERM: save, then end. Every rank of a run that is stopped gets it, and SIGKILL after a grace (`--grace`)."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Callable


def on_checkpoint_signal(callback: Callable[[], object], *, then_end: bool = True) -> None:
    """Call `callback` once when this rank is told to end; then end by the signal, as without it.

    It is called in the main thread, between two instructions of whatever runs there. Ranks get the signal within
    milliseconds of each other but not at the same step: to save together, let it set a flag, say `then_end=False`, and
    let the loop agree on the flag, save and end. Processes that are forked from here, DataLoader workers for instance,
    end at once and call nothing.
    """
    owner = os.getpid()

    def on_signal(signum: int, frame: FrameType | None) -> None:
        is_ours = os.getpid() == owner
        signal.signal(signum, signal.SIG_IGN)
        try:
            if is_ours:
                callback()
        finally:
            if then_end or not is_ours:
                signal.signal(signum, signal.SIG_DFL)
                os.kill(os.getpid(), signum)

    signal.signal(signal.SIGTERM, on_signal)
