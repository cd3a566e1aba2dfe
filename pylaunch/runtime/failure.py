"""Record of the exception that ends a rank, in the file and format of torch's `record`."""

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
    """Write `error` to the file that the launcher names, unless it exists: the first failure is the cause."""
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
    """Record an uncaught exception of the main thread, and skip JAX's shutdown after it (see `skip_jax_shutdown`).

    Frames up to those of the file `above` are omitted, because they belong to the start of the script.
    """
    if getattr(sys.excepthook, "is_pylaunchs", False):
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shortened = error.with_traceback(_below(trace, above))
        keep(shortened)
        skip_jax_shutdown()
        before(kind, shortened, shortened.__traceback__)

    hook.is_pylaunchs = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def _below(trace: TracebackType | None, above: str) -> TracebackType | None:
    below, frame = trace, trace
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == above:
            below = frame.tb_next
        frame = frame.tb_next
    return below if below is not None else trace


def skip_jax_shutdown() -> None:
    """Unregister JAX's exit handler, so that a failed rank exits.

    That handler calls `jax.distributed.shutdown`, a barrier which the peers of a failed rank never reach.
    """
    api = sys.modules.get("jax._src.api")
    clean_up = getattr(api, "clean_up", None)
    if clean_up is not None:
        atexit.unregister(clean_up)
