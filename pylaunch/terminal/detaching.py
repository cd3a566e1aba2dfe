"""The half of `start --detach` at the terminal: it shows the log of the other half until ranks run."""

from pathlib import Path

from pylaunch.terminal import console
from pylaunch.transport.background import Background

POLL_S = 0.05


def wait_until_well(background: Background, log: Path) -> int | None:
    """Print the log of the background process until its ranks run; return None, or its exit code if it ended before."""
    shown = 0
    well: bool | None = None
    while well is None:
        try:
            well = background.is_well(POLL_S)
        except KeyboardInterrupt:
            background.interrupt()
        shown = _show(log, shown)
    if well:
        return None
    code = background.exit_code()
    _show(log, shown)
    return code


def _show(log: Path, shown: int) -> int:
    """Print the lines of `log` after its first `shown` bytes; return the number of bytes printed so far."""
    text = log.read_bytes()[shown:]
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        console.say(line)
    return shown + len(whole)
