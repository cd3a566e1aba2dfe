"""Quantities as people write and read them: bytes, times, durations, counts."""

import re

from pylaunch.model.clock import in_utc

_UNITS = {"": 1, "b": 1} | {
    letter.lower() + suffix: base**power
    for power, letter in enumerate("KMGT", 1)
    for suffix, base in (("", 1024), ("b", 1000), ("ib", 1024))
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def parse_size(text: str) -> int:
    """Bytes in "2GiB", "500MB" (powers of 1000), "64M" (as MiB) or "4096". Raises ValueError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or found[2].lower() not in _UNITS:
        raise ValueError(f"expected a size such as 2GiB, 500MB or 4096; got {text!r}")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def shown_size(size: int) -> str:
    """ "512 bytes", "4.2 KiB", "12 MiB": three digits at most before the unit, one after the point below ten."""
    if size < 1024:
        return f"{size} bytes"
    value, unit = size / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def size(count: float) -> str:
    """ "64 KiB", "1.46 GiB": three digits, to compare with a threshold."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} PiB"


def moment(time: float) -> str:
    """Return a time in the zone of this machine, to the second."""
    return in_utc(time).astimezone().isoformat(sep=" ", timespec="seconds")


def duration(seconds: float) -> str:
    """Return a duration in two units at most: "7 s", "3 min 20 s", "2 h 5 min"; "?" where the clock was set back."""
    whole = round(seconds)
    if whole < 0:
        return "?"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def counted(number: int, noun: str) -> str:
    """ "1 rank", "6 ranks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
