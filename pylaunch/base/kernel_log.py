"""Kernel messages that explain failures of ranks: one table of patterns for the agent and the probe. Pure.

The texts are those of Linux 3.10 to 6.12 and of NVIDIA's drivers. Corrected errors, and messages about bridges and
virtual links, match nothing.
"""

from __future__ import annotations

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
