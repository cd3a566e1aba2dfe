"""Locks for changes to labs. The kernel releases a lock when its holder dies, so a killed pylaunch blocks nobody."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

from lab.nodes.waiting import reached
from lab.spec import labs_directory
from pylaunch.errors import LabError

# A process that a killed holder has just forked keeps the lock until it executes its program.
_INHERITED_S = 2.0


@contextlib.contextmanager
def changing(what: Literal["machine", "image", "tools"]) -> Iterator[None]:
    """Lock addresses and the specs of all labs, images, or the programs for labs. Waits for other holders."""
    with _open(what) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def changing_lab(name: str) -> Iterator[None]:
    """Lock the creation and removal of lab `name`. Raises LabError when another pylaunch holds the lock."""
    lock = f"lab-{name}"
    with contextlib.ExitStack() as stack:

        def take() -> bool:
            handle = _open(lock)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_current = os.path.samestat(os.fstat(handle.fileno()), _path(lock).stat())
            except (BlockingIOError, FileNotFoundError):
                is_current = False
            if not is_current:
                handle.close()
                return False
            stack.enter_context(handle)
            return True

        if not reached(take, _INHERITED_S):
            raise LabError(
                f"lab {name} is being made or removed by another pylaunch", hint="wait for it to end, then try again"
            )
        try:
            yield
        finally:
            _path(lock).unlink(missing_ok=True)


def _path(what: str) -> Path:
    return labs_directory() / f".{what}.lock"


def _open(what: str) -> IO[str]:
    labs_directory().mkdir(parents=True, exist_ok=True)
    return _path(what).open("w")
