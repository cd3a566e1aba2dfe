"""Kernel settings that labs need: raised for the first lab, restored after the last."""

import json
from pathlib import Path

from lab.spec import labs_directory

_SYS = Path("/proc/sys")
_NEEDED = {
    "net/ipv4/ip_forward": 1,
    # The systemd of every node takes about ten; 128 are enough for a dozen nodes.
    "fs/inotify/max_user_instances": 8192,
    # All nodes share this machine's table of neighbours: each of n nodes has n - 1 entries, and 1024 are full at 33
    # nodes. A node whose entry has no place gets no answer from the others.
    "net/ipv4/neigh/default/gc_thresh1": 4096,
    "net/ipv4/neigh/default/gc_thresh2": 8192,
    "net/ipv4/neigh/default/gc_thresh3": 16384,
}
"""Setting → minimum value."""


def raise_settings() -> None:
    """Raise the settings to their minimum. Call it with the machine locked."""
    before = _before()
    if not before.exists():
        before.write_text(json.dumps({name: _read(name) for name in _NEEDED}))
    for name, least in _NEEDED.items():
        if _read(name) < least:
            (_SYS / name).write_text(f"{least}\n")


def restore_settings() -> None:
    """Restore the settings after the last lab. Call it with the machine locked."""
    before = _before()
    if before.exists():
        for name, value in json.loads(before.read_text()).items():
            (_SYS / name).write_text(f"{value}\n")
        before.unlink()


def _read(name: str) -> int:
    return int((_SYS / name).read_text())


def _before() -> Path:
    return labs_directory() / ".kernel-before.json"
