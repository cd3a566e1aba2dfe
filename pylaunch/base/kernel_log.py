"""Kernel messages that explain failures of ranks: one table of patterns for the agent and the probe. Pure.

The texts are those of Linux 3.10 to 6.12 and of NVIDIA's drivers. Corrected errors, and messages about bridges and
virtual links, match nothing.
"""

from __future__ import annotations

import functools
import re

from pylaunch.base.dataclass import dataclass

OOM_KILL = "oom-kill"
XID = "xid"
SXID = "sxid"
LINK_DOWN = "link-down"
LINK_UP = "link-up"
IO_ERROR = "io-error"
READ_ONLY = "read-only"
SERVER_SILENT = "server-silent"
SERVER_BACK = "server-back"
HUNG_TASK = "hung-task"
LOCKUP = "lockup"
HARDWARE = "hardware"
SEGFAULT = "segfault"

XID_TEXT = r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]+)[^)]*\): (?P<code>\d+)"

TABLE = (
    (OOM_KILL, r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process (?P<pid>\d+) \([^)]*\)"),
    (OOM_KILL, r"oom-kill:(?:.*,task=.*?,pid=(?P<pid>\d+))?"),
    (XID, XID_TEXT),
    (SXID, r"nvidia-nvswitch\d*: SXid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]+)\): (?P<code>\d+)"),
    (LINK_DOWN, r"(?:^|\s)(?P<device>[\w.-]+):? (?:NIC )?[Ll]ink (?:is )?[Dd]own\b"),
    (LINK_DOWN, r"\(slave (?P<device>[\w.-]+)\): link status definitely down"),
    (LINK_UP, r"(?:^|\s)(?P<device>[\w.-]+):? (?:NIC )?[Ll]ink (?:is )?[Uu]p\b"),
    (LINK_UP, r"\(slave (?P<device>[\w.-]+)\): link status definitely up"),
    (IO_ERROR, r"I/O error, dev (?P<device>[\w.-]+)"),
    (IO_ERROR, r"Buffer I/O error on dev(?:ice)? (?P<device>[\w.-]+)"),
    (IO_ERROR, r"nvme (?P<device>nvme\d+): (?:I/O \d+ .*timeout|controller is down|Removing after probe failure)"),
    (IO_ERROR, r"EXT4-fs error \(device (?P<device>[\w.-]+)\)"),
    (IO_ERROR, r"XFS \((?P<device>[\w.-]+)\): .*(?:I/O error|[Ss]hutting down filesystem)"),
    (READ_ONLY, r"(?:\((?P<device>[\w.-]+)\): )?Remounting filesystem read-only"),
    (SERVER_SILENT, r"nfs: server (?P<device>\S+) not responding"),
    (SERVER_SILENT, r"Lustre: .*Connection to (?P<device>\S+) .*was lost"),
    (SERVER_SILENT, r"ceph: (?P<device>mds\d+) (?:hung|caps stale)"),
    (SERVER_BACK, r"nfs: server (?P<device>\S+) OK"),
    (SERVER_BACK, r"Lustre: .*Connection restored to (?P<device>\S+)"),
    (SERVER_BACK, r"ceph: (?P<device>mds\d+) (?:came back|recovery completed)"),
    (HUNG_TASK, r"(?:INFO: )?task .+?:(?P<pid>\d+) blocked for more than \d+ seconds"),
    (HUNG_TASK, r"blocked for more than \d+ seconds"),
    (LOCKUP, r"soft lockup(?: - CPU#\d+ stuck for .*\[.+?:(?P<pid>\d+)\])?"),
    (LOCKUP, r"rcu.*self-detected stall"),
    (HARDWARE, r"Memory failure: .*Sending SIGBUS to .+?:(?P<pid>\d+)"),
    (HARDWARE, r"\[Hardware Error\]:.*(?:Uncorrected|[Ff]atal)"),
    (HARDWARE, r"EDAC \w+: \d+ UE |mce: Uncorrected hardware memory error"),
    (SEGFAULT, r"\S+\[(?P<pid>\d+)\]: segfault at "),
)  # fmt: skip
"""(kind, pattern): the first pattern that matches decides. `device`, `pid` and `code` name their groups."""

MAX_TEXT = 300


@dataclass(frozen=True)
class KernelLine:
    """A message of the kernel that is in the table."""

    kind: str
    text: str
    device: str = ""
    """PCI address, network interface, disk or file server; "" for none."""

    pid: int | None = None
    """Process id in the first pid namespace of the host."""

    code: int | None = None
    """Number of an Xid or SXid."""


def parse(text: str) -> KernelLine | None:
    """Return the kind and the subject of a kernel message; None for one that is not in the table."""
    for kind, pattern in _compiled():
        found = pattern.search(text)
        if found is not None:
            groups = found.groupdict()
            pid, code = (None if groups.get(name) is None else int(groups[name][:9]) for name in ("pid", "code"))
            return KernelLine(kind, text[:MAX_TEXT], groups.get("device") or "", pid, code)
    return None


@functools.lru_cache(maxsize=None)
def _compiled() -> list[tuple[str, re.Pattern[str]]]:
    return [(kind, re.compile(pattern)) for kind, pattern in TABLE]
