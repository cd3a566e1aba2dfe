"""Read files that other programs wrote."""

from __future__ import annotations

import os


def text_of(path: str) -> str:
    """Return the content of a file as text, invalid UTF-8 replaced."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def text_or_none(path: str) -> str | None:
    """Return the content of a small file, stripped; None if it cannot be read."""
    try:
        return text_of(path).strip()
    except OSError:
        return None


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, from the state letter on; [] if they cannot be read."""
    return (text_or_none(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()


def waits_in(pid: int) -> str:
    """Return the kernel function that a process or thread waits in; "" if it runs or that cannot be read."""
    function = text_or_none(f"/proc/{pid}/wchan") or ""
    return "" if function == "0" else function


def meminfo() -> dict[str, int]:
    """Return the sizes of /proc/meminfo in bytes, without its numbers of huge pages."""
    rows = (line.partition(":") for line in text_of("/proc/meminfo").splitlines())
    return {name: int(rest.split()[0]) << 10 for name, _, rest in rows if rest.endswith(" kB")}


def link_of(path: str) -> str:
    """Return the target of a symbolic link; "" if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def listed(directory: str) -> list[str]:
    """Return the names in a directory, sorted; [] without the directory."""
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def names_in(directory: str, most: int) -> list[str]:
    """Return the first `most` names in a directory, sorted; [] if it cannot be read."""
    try:
        return sorted(os.listdir(directory))[:most]
    except OSError:
        return []


def unreachable(path: str) -> str:
    """Return the error that hides whether `path` exists, such as a stale file handle of NFS; "" where none does."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError as error:
        return str(error.strerror)
    return ""


def next_data(descriptor: int, at: int, end: int) -> int:
    """Return the offset of the first byte from `at` on that is not in a hole; `end`, the file size, without one."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError:  # ENXIO: only a hole from here on, or already at the end.
        return end
