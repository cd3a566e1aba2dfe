"""Checkpoint on SIGTERM, which every rank of a stopped run receives before SIGKILL (`--grace`)."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Callable


def on_checkpoint_signal(callback: Callable[[], object], *, then_end: bool = True) -> None:
    """Call `callback` once when this rank receives SIGTERM, then let the signal end the rank.

    The callback runs in the main thread, between two instructions. Ranks receive the signal within milliseconds of each
    other, but not at the same step. To save together, pass `then_end=False`, let the callback set a flag, and let the
    training loop agree on the flag, save and exit. Forked processes, such as DataLoader workers, end at once, without
    calling it.
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
