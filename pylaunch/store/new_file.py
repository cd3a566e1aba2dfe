"""Write a file that must not exist yet, for its user alone: nothing is replaced, and no half of it stays."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pylaunch.errors import UsageError

HINT = "name another file: -o FILE"


def refuse_existing(file: Path) -> None:
    """Raise UsageError if `file` exists: nothing is replaced."""
    if file.exists() or file.is_symlink():
        raise UsageError(f"{file} exists already", hint=HINT)


@contextlib.contextmanager
def new_file(file: Path) -> Iterator[BinaryIO]:
    """Open `file` for writing, and remove it if the body fails. Raises UsageError if it exists or cannot be written."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with contextlib.ExitStack() as undo:
            undo.callback(file.unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as out:
                yield out
            undo.pop_all()
    except FileExistsError:
        raise UsageError(f"{file} exists already", hint=HINT) from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror}", hint=HINT) from None
