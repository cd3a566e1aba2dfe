"""Temporary files, as in `tempfile`, whose import costs a host 3 ms."""

from __future__ import annotations

import os

CANDIDATES = ("/tmp", "/var/tmp", "/usr/tmp")
RARE = "/usr/tmp"
"""Of the candidates, the one that most hosts do not have."""

WRITTEN = b"blat"


def temporary_directory() -> str:
    """Return the directory that `tempfile` uses; "" if no file can be written anywhere."""
    return next((each for each in _candidates() if not refusal(each, WRITTEN, is_synced=False)), "")


def temporary_refusals() -> dict[str, str]:
    """Return the error of each directory that `tempfile` tries and where no file can be written."""
    errors = {each: refusal(each, WRITTEN, is_synced=False) for each in _candidates()}
    return {each: error for each, error in errors.items() if error and (each != RARE or os.path.isdir(each))}


def _candidates() -> list[str]:
    asked = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    return list(dict.fromkeys(map(os.path.abspath, (*asked, *CANDIDATES, os.getcwd()))))


def refusal(directory: str, content: bytes, *, is_synced: bool = True) -> str:
    """Return the error of writing a file with `content` in `directory`; "" if it succeeds. The file is removed."""
    # A unique name, because several hosts may check one shared directory.
    path = os.path.join(directory, f".pylaunch-check-{os.urandom(8).hex()}")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, content)
            if is_synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
            os.unlink(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""
