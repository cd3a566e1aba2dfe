"""Reports of a rank on itself: the exception that ended it, and its last step.

The error file follows torch's contract: TORCHELASTIC_ERROR_FILE names it, `record` of torch.distributed.elastic
writes it as {"message": {"message": "RuntimeError: …", "extraInfo": {"py_callstack": "Traceback …"}}}.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from pylaunch.agent.logs.masking import Mask
from pylaunch.agent.shared import rank_files
from pylaunch.base import untrusted_json
from pylaunch.base.layout import RunDirectory
from pylaunch.protocol.fields import LARGEST

if TYPE_CHECKING:
    from pylaunch.runtime.progress import Mark


ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
STEP_FILE = "PYLAUNCH_STEP_FILE"
"""`VARIABLE` of `pylaunch.runtime.progress`."""

SOCKET = "sock"
STACKS = "stacks"
MAX_BYTES = 1 << 20
MAX_TEXT = 500
MAX_DIGITS = 9
_FRAME = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)
_FOREIGN = re.compile(r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|^<")


def environment(directory: RunDirectory, rank: int) -> dict[str, str]:
    """Return the variables with the paths of the error file and the step file of `rank`."""
    return {ERROR_FILE: directory.of_rank(rank, "error.json"), STEP_FILE: directory.of_rank(rank, "step")}


def make_room(directory: RunDirectory) -> None:
    """Create the directory that ranks write to, and remove the files of earlier processes."""
    room = os.path.dirname(directory.of_rank(0, ""))
    os.makedirs(room, mode=0o700, exist_ok=True)
    for name in os.listdir(room):
        rank_files.remove(os.path.join(room, name))


def error(directory: RunDirectory, rank: int, mask: Mask, workdir: str = "") -> str:
    """Return the exception in the error file of `rank`, masked, with the place that raised it; "" without one.

    The path of a place below `workdir` is relative to it.
    """
    try:
        content = rank_files.read(directory.of_rank(rank, "error.json"), MAX_BYTES).decode("utf-8", "replace")
        return described(untrusted_json.parse(content, MAX_BYTES), mask, workdir)
    except (OSError, ValueError):
        return ""


def described(body: Any, mask: Mask, workdir: str = "") -> str:
    """Return an error file as one line, masked, "RuntimeError: loss is NaN (train.py:12)"; "" for an invalid one.

    The place is the innermost frame of the user's own code, else the innermost frame.
    """
    message = body.get("message") if isinstance(body, dict) else None
    stack = ""
    if isinstance(message, dict):
        extra = message.get("extraInfo")
        stack = str(extra.get("py_callstack", "")) if isinstance(extra, dict) else ""
        message = message.get("message")
    if not isinstance(message, str) or not message.strip():
        return ""
    text = mask.hide_in(message).strip().splitlines()[0][:MAX_TEXT]
    frames = _FRAME.findall(mask.hide_in(stack))
    own = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    if not frames:
        return text
    path, line = (own or frames)[-1]
    if workdir:
        inside = [each.rstrip("/") + "/" for each in (workdir, os.path.realpath(workdir))]
        path = next((path[len(each) :] for each in inside if path.startswith(each)), path)
    return f"{text} ({path[-MAX_TEXT:]}:{line[:MAX_DIGITS]})"


def last_step(directory: RunDirectory, rank: int) -> int | None:
    """Return the last step that `rank` has marked; None without one."""
    mark = last_mark(directory, rank)
    return None if mark is None else mark.step


def last_mark(directory: RunDirectory, rank: int) -> Mark | None:
    """Return the last mark of `rank`, a step with its time; None without one."""
    path = directory.of_rank(rank, "step")
    if not rank_files.size(path):
        return None
    from pylaunch.runtime import progress  # noqa: PLC0415 -- 8 ms that only a rank with a step costs

    try:
        mark = progress.decoded(rank_files.read(path, progress.SIZE))
    except OSError:
        return None
    # A rank can write any number there, and a controller ends the connection for one that is too large.
    return mark if mark is not None and max(abs(mark.step), mark.time, mark.total) <= LARGEST else None
