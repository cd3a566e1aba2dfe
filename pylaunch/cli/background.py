"""Wait at the terminal until the controller in the background has started its ranks."""

from __future__ import annotations

from pathlib import Path

from pylaunch.errors import ExitCode
from pylaunch.terminal import console
from pylaunch.transport.process import Background

POLL_S = 0.05


def wait_until_well(run: str, background: Background, log: Path) -> int:
    """Print the log of the background process until its ranks run; return 0, or its exit code if it ended before."""
    shown = 0
    well: bool | None = None
    while well is None:
        try:
            well = background.is_well(POLL_S)
        except KeyboardInterrupt:
            background.interrupt()
        shown = _show(log, shown)
    if not well:
        code = background.exit_code()
        _show(log, shown)
        return code
    console.say(
        f"run {run} continues in the background\n\n"
        f"hint: pylaunch attach {run}    # follow it; Ctrl-C stops it\n"
        f"      pylaunch logs -f {run}   # only its output\n"
        f"      pylaunch stop {run}"
    )
    return ExitCode.DONE


def _show(log: Path, shown: int) -> int:
    """Print the lines of `log` after its first `shown` bytes; return the number of bytes printed so far."""
    text = log.read_bytes()[shown:]
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        console.say(line)
    return shown + len(whole)
