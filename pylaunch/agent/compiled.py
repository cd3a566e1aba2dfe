"""The archive's modules as this Python has compiled them, kept beside it: a start spends more on that than on all else.

Python does the same for files, in __pycache__, but not for archives.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import marshal
import os
import zipfile
import zlib

HEADER = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
"""Of a compiled file that Python takes as it is (PEP 552: flags 1, then a hash of the source that nobody checks)."""


def keep(archive: str, place: str) -> None:
    """Write what `archive` becomes to `place`, whole or not at all. Without room for it, nothing happens.

    It begins with its checksum: a zip archive may begin with anything.
    """
    aside = f"{place}.{os.getpid()}"
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(archive) as source, zipfile.ZipFile(made, "w") as sink:
            for name in source.namelist():
                code = compile(source.read(name), os.path.join(archive, name), "exec", dont_inherit=True)
                sink.writestr(name + "c", HEADER + marshal.dumps(code))
        with open(aside, "xb", opener=_for_us_alone) as target:
            target.write(b"%08x" % zlib.crc32(made.getvalue()) + made.getvalue())
            target.flush()
            os.fsync(target.fileno())
        os.replace(aside, place)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
