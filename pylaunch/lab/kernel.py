"""Settings of this machine's kernel that labs need while there are any, and what they were before."""

from __future__ import annotations

import json
from pathlib import Path

from pylaunch.lab.spec import labs_directory

_SYS = Path("/proc/sys")
_NEEDED = {
    "net/ipv4/ip_forward": 1,
    # The systemd of every node takes about ten; 128 are enough for a dozen nodes.
    "fs/inotify/max_user_instances": 8192,
}
"""Setting → the least it must be."""


def raise_settings() -> None:
    """Give labs what they need. Call it while `changing_machine`."""
    before = _before()
    if not before.exists():
        before.write_text(json.dumps({name: _read(name) for name in _NEEDED}))
    for name, least in _NEEDED.items():
        if _read(name) < least:
            (_SYS / name).write_text(f"{least}\n")


def restore_settings() -> None:
    """With the last lab gone, all is as it was before the first. Call it while `changing_machine`."""
    before = _before()
    if before.exists():
        for name, value in json.loads(before.read_text()).items():
            (_SYS / name).write_text(f"{value}\n")
        before.unlink()


def _read(name: str) -> int:
    return int((_SYS / name).read_text())


def _before() -> Path:
    return labs_directory() / ".kernel-before.json"
