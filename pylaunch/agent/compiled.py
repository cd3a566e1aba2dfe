"""The archive's modules as this Python has compiled them, kept beside it: a start spends more on that than on all else.

Python does the same for files, in __pycache__, but not for archives.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
import zipfile

HEADER = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Of a compiled file that Python takes as it is (PEP 552: flags 1, then a hash of the source that nobody checks)."""


def keep(archive: str, place: str) -> None:
    """Write what `archive` becomes to `place`, whole or not at all. Without room for it, nothing happens."""
    aside = "%s.%d" % (place, os.getpid())
    try:
        with open(aside, "xb", opener=_for_us_alone) as target:
            with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as sink:
                for name in source.namelist():
                    code = compile(source.read(name), os.path.join(archive, name), "exec", dont_inherit=True)
                    sink.writestr(name + "c", HEADER + marshal.dumps(code))
            target.flush()
            os.fsync(target.fileno())
        os.replace(aside, place)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
