"""The exception that ends a rank, kept in the file that the launcher names, as torch's `record` keeps it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
import traceback
from types import TracebackType

VARIABLE = "TORCHELASTIC_ERROR_FILE"


def keep(error: BaseException) -> None:
    """Write `error` down, if somebody asked for it and nothing is there yet. The first failure is the one to know."""
    path = os.environ.get(VARIABLE)
    if not path or os.path.exists(path):
        return
    stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    extra = {"py_callstack": stack, "timestamp": str(int(time.time()))}
    body = {"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}}
    aside = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        with open(aside, "w", encoding="utf-8", errors="replace") as sink:
            json.dump(body, sink)
        os.replace(aside, path)


def watch(above: str = "") -> None:
    """From now on, keep the exception that nobody catches in the main thread, and let go of the others (see `let_go`).

    Frames up to those of the file `above` are not told: they are how the script was started.
    """
    if getattr(sys.excepthook, "is_pylaunchs", False):
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        told = error.with_traceback(_below(trace, above))
        keep(told)
        let_go()
        before(kind, told, told.__traceback__)

    hook.is_pylaunchs = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _below(trace: TracebackType | None, above: str) -> TracebackType | None:
    below, frame = trace, trace
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == above:
            below = frame.tb_next
        frame = frame.tb_next
    return below if below is not None else trace


def let_go() -> None:
    """Do not wait for the others on the way out: JAX would, in a barrier that a failed rank's peers never reach.

    Its clean-up at exit ends with `jax.distributed.shutdown`. A process that fails must end, so that it is seen to.
    """
    api = sys.modules.get("jax._src.api")
    clean_up = getattr(api, "clean_up", None)
    if clean_up is not None:
        atexit.unregister(clean_up)
