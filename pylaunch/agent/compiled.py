"""Compiled modules of the archive, kept beside it, because compiling takes most of the time of a start.

Python keeps compiled files in __pycache__, but does nothing of the kind for archives.
"""

import contextlib
import importlib.util
import io
import marshal
import os
import zipfile

HEADER = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Header of a compiled file that Python does not compare with its source (PEP 552: flags 1, then an unchecked hash)."""


def keep(archive: str, target: str) -> None:
    """Write the compiled modules of `archive` to `target`, atomically. Does nothing if the disk is full."""
    aside = f"{target}.{os.getpid()}"
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(archive) as source, zipfile.ZipFile(made, "w") as sink:
            for name in source.namelist():
                code = compile(source.read(name), os.path.join(archive, name), "exec", dont_inherit=True)
                sink.writestr(name + "c", HEADER + marshal.dumps(code))
        with open(aside, "xb", opener=_private) as file:
            file.write(made.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
