"""Kernel messages as Linux and NVIDIA's drivers print them."""

import pytest

from pylaunch.agent.evidence.kernel_messages import parse
from pylaunch.base.kernel_log import TABLE

MESSAGES = [
    ("oom-kill", "", 4121, "Memory cgroup out of memory: Killed process 4121 (python3) total-vm:5247896kB, UID:1000"),
    ("oom-kill", "", 4121, "Out of memory: Killed process 4121 (pt_main_thread) total-vm:9kB, anon-rss:8kB"),
    ("oom-kill", "", 77, "Out of memory: Kill process 77 (python) score 911 or sacrifice child"),
    ("oom-kill", "", 4121, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=4121,uid=0"),
    ("xid", "0000:3b:00", None, "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off"),
    ("sxid", "0000:c1:00.0", None, "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),
    ("link-down", "eth0", None, "mlx5_core 0000:5e:00.0 eth0: Link down"),
    ("link-down", "eno1", None, "tg3 0000:02:00.0 eno1: Link is down"),
    ("link-down", "eth2", None, "ixgbe 0000:04:00.0 eth2: NIC Link is Down"),
    ("link-down", "eth0", None, "e1000e: eth0 NIC Link is Down"),
    ("link-down", "eth1", None, "bond0: (slave eth1): link status definitely down, disabling slave"),
    ("link-up", "eth0", None, "mlx5_core 0000:5e:00.0 eth0: Link up"),
    ("link-up", "eth2", None, "ixgbe 0000:04:00.0 eth2: NIC Link is Up 10 Gbps, Flow Control: RX/TX"),
    ("io-error", "sda", None, "blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0"),
    ("io-error", "nvme0", None, "nvme nvme0: I/O 23 QID 4 timeout, aborting"),
    ("io-error", "dm-0", None, "XFS (dm-0): log I/O error -5"),
    ("io-error", "sda1", None, "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading"),
    ("read-only", "sda1", None, "EXT4-fs (sda1): Remounting filesystem read-only"),
    ("server-silent", "fs1", None, "nfs: server fs1 not responding, still trying"),
    ("server-back", "fs1", None, "nfs: server fs1 OK"),
    ("server-silent", "10.0.0.9@tcp", None, "Lustre: x-mdc: Connection to 10.0.0.9@tcp (at 10.0.0.9@tcp) was lost; in"),
    ("hung-task", "", 7123, "INFO: task python3:7123 blocked for more than 120 seconds."),
    ("lockup", "", 9, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/3:1:9]"),
    ("lockup", "", None, "rcu: INFO: rcu_preempt self-detected stall on CPU"),
    ("hardware", "", 812, "Memory failure: 0x3fa2: Sending SIGBUS to python3:812 due to hardware memory corruption"),
    ("hardware", "", None, "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0 (channel:0 slot:0 page:0x0)"),
    ("segfault", "", 4121, "python3[4121]: segfault at 0 ip 00007f sp 00007ffe error 4 in libtorch_cpu.so[7f+1]"),
]  # fmt: skip


CODES = {"xid": 79, "sxid": 20034}


@pytest.mark.parametrize(("kind", "device", "pid", "text"), MESSAGES)
def test_a_message_has_its_kind_and_its_subject(kind: str, device: str, pid: int | None, text: str) -> None:
    found = parse(text, 1.0)
    assert found is not None
    assert (found.kind, found.device, found.pid, found.code) == (kind, device, pid, CODES.get(kind))


def test_every_kind_has_a_message_here() -> None:
    assert {kind for kind, _ in TABLE} == {kind for kind, _, _, _ in MESSAGES}


@pytest.mark.parametrize(
    "text",
    [
        "docker0: port 1(veth1a2b) entered disabled state",
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0",
        "mce: [Hardware Error]: Machine check events logged",
        'audit: type=1400 audit(1.2:3): apparmor="STATUS"',
        "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
        "nfsd: last server has exited, flushing export cache",
        "usb 1-1: device descriptor read/64, error -71",
    ],
)
def test_messages_of_a_healthy_host_match_nothing(text: str) -> None:
    assert parse(text, 1.0) is None
