"""Evidence sets of failed runs, in the words of agents, and the verdict that each must yield.

Three hosts with one rank each. Times are seconds; the first failure is at 100.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from signal import SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM, SIGXCPU
from typing import Any

from pylaunch.agent.evidence import kernel_messages
from pylaunch.model.diagnosis.cause import Named
from pylaunch.model.diagnosis.finding import ATTESTATION, Finding, Severity
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.node_evidence import (
    SIGNALLED,
    HostEvidence,
    KernelEvent,
    OutOfMemory,
    RankEnd,
    RankState,
    StuckConnection,
)
from pylaunch.verdict.failure_evidence import Evidence

RANKS = {"n1": frozenset({0}), "n2": frozenset({1}), "n3": frozenset({2})}
ADDRESSES = {"n1": "10.0.0.1", "n2": "10.0.0.2", "n3": "10.0.0.3"}
WAITED = "timed out waiting for other ranks"
LOST = "lost the connection to another rank"
STORE = "lost the store or the rendezvous of the run"
GIB = 1 << 30

KILL = "Memory cgroup out of memory: Killed process 4121 (python3) total-vm:5247896kB"
FALLEN = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
ILLEGAL = "NVRM: Xid (PCI:0000:3b:00): 13, pid=4121, Graphics Exception: ESR 0x50df30=0x107000e"
CLEANUP = "NVRM: Xid (PCI:0000:3b:00): 45, pid=4121, name=python3, Ch 00000008"
CONTAINED = "NVRM: Xid (PCI:0000:3b:00): 94, pid=4121, name=python3, Contained: CE User Channel (0x9)"
FATAL_LINK = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
DOWN = "mlx5_core 0000:5e:00.0 eth0: Link down"
SERVER = "nfs: server fs1 not responding, still trying"
DISK = "blk_update_request: I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0"
READ_ONLY = "EXT4-fs (sda1): Remounting filesystem read-only"
HUNG = "INFO: task python3:4121 blocked for more than 120 seconds."
BROKEN_MEMORY = "Memory failure: 0x3fa2: Sending SIGBUS to python3:4121 due to hardware memory corruption"
CRASH = "python3[4121]: segfault at 0 ip 00007f sp 00007ffe error 4 in libtorch_cpu.so[7f+1]"


def host_of(rank: int) -> str:
    return f"n{rank + 1}"


def own(rank: int, at: float = 100.0, error: str = "", *, code: int = 1, **more: Any) -> RankEnd:
    return RankEnd(rank, host_of(rank), code, None, at, stopped=False, error=error, **more)


def killed(rank: int, at: float = 100.0, signum: int = SIGKILL, **more: Any) -> RankEnd:
    return RankEnd(rank, host_of(rank), None, signum, at, stopped=False, **more)


def victim(rank: int, at: float = 100.0, symptom: str = WAITED) -> RankEnd:
    return RankEnd(rank, host_of(rank), 1, None, at, stopped=False, symptom=symptom)


def left(rank: int, at: float = 90.0, step: int | None = None) -> RankEnd:
    return RankEnd(rank, host_of(rank), 0, None, at, stopped=False, step=step)


def ended(rank: int, at: float = 103.0) -> RankEnd:
    """Return the end of a rank that was stopped with the run."""
    return RankEnd(rank, host_of(rank), None, SIGTERM, at, stopped=True)


def waiting(rank: int, state: str = "S", silent_s: float | None = 31.0) -> RankState:
    return RankState(rank, state, silent_s, None)


def states(*unfinished: RankState) -> dict[str, tuple[RankState, ...]]:
    found: dict[str, tuple[RankState, ...]] = dict.fromkeys(RANKS, ())
    for each in unfinished:
        found[host_of(each.rank)] += (each,)
    return found


def says(text: str, at: float = 95.0, rank: int | None = None) -> KernelEvent:
    event = kernel_messages.parse(text, at)
    assert event is not None
    return replace(event, rank=rank)


def stuck(to: str, *, rank: int | None = 0, retransmits: int = 0) -> StuckConnection:
    return StuckConnection(rank, ADDRESSES[to], 41000, 65536, retransmits, 40000)


def facts(host: str, *kernel: KernelEvent, stuck: tuple[StuckConnection, ...] = (), **more: Any) -> HostEvidence:
    return HostEvidence(host, 102.0, 0.001, kernel, stuck, addresses=(ADDRESSES[host],), **more)


@dataclass(frozen=True)
class EvidenceSet:
    """Evidence with its verdict."""

    name: str
    ends: tuple[RankEnd, ...]
    kind: str | None
    """Kind of the first cause; None for no cause."""

    confidence: str | None
    named: Named | None
    states: Mapping[str, tuple[RankState, ...]] = field(default_factory=states)
    hosts: tuple[HostEvidence, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    views: tuple[RankView, ...] = ()
    ranks: Mapping[str, frozenset[int]] = field(default_factory=lambda: RANKS)
    answering: frozenset[str] = frozenset()
    restarted: frozenset[str] = frozenset()
    stopping: str = ""

    @property
    def evidence(self) -> Evidence:
        known = {facts.host for facts in self.hosts}
        others = tuple(facts(host) for host in RANKS if host not in known and host not in self.lost)
        return Evidence(
            self.ranks, self.ends, self.states, self.lost, (*self.hosts, *others), self.findings,
            self.views, self.answering, self.restarted,
            stopping=self.stopping,
        )  # fmt: skip


WAITS_0 = states(waiting(0), waiting(2))
VICTIMS = (victim(0), victim(2, 100.2))
N1, N2 = Named("n1", 0), Named("n2", 1)
NODE_2 = Named("n2", None)
FULL = "OSError: [Errno 28] No space left on device; /scratch is full (0 KiB of 100 MiB free)"
MEMORY = OutOfMemory(certain=True, limit=8 * GIB, of="cgroup")
PERHAPS = OutOfMemory(certain=False, limit=64 * GIB, of="host")
RESTARTED = "it was restarted during the run: up since 2026-11-20 07:12:00 +0000"
NODES_2 = frozenset({"n2"})
ENDED = "the agent of run 7f3a ended without a report"
BOTH_LEFT = (ended(0), ended(2))


SETS = (
    # A rank fails on its own.
    EvidenceSet("exception", (own(1, error="ValueError: no data"), *BOTH_LEFT), "rank-failed", "high", N2,
                WAITS_0),
    EvidenceSet("exit code", (own(1, code=3), *BOTH_LEFT), "rank-failed", "high", N2, WAITS_0),
    EvidenceSet("exception, then victims", (own(1, error="KeyError: 'x'"), victim(0, 100.2, LOST), victim(2, 100.3,
                LOST)),
                "rank-failed", "high", N2),
    EvidenceSet("exception just after its victim", (victim(0, 99.95, LOST), own(1, error="KeyError: 'x'"),
                victim(2, 100.3, LOST)), "rank-failed", "high", N2),
    EvidenceSet("SIGKILL by a person", (killed(1), *BOTH_LEFT), "rank-killed", "high", N2, WAITS_0),
    EvidenceSet("SIGKILL long after the victims", (victim(0), victim(2), killed(1, 101.5)), "rank-killed", "medium",
                N2),
    EvidenceSet("SIGSEGV with the kernel's line", (killed(1, signum=SIGSEGV), *BOTH_LEFT), "rank-killed", "high",
                N2,
                WAITS_0, (facts("n2", says(CRASH, 100.0, 1)),)),
    EvidenceSet("limit of processor time", (killed(1, signum=SIGXCPU), *BOTH_LEFT), "limit", "high", N2, WAITS_0),
    EvidenceSet("OOM kill in its cgroup", (killed(1, out_of_memory=MEMORY), *BOTH_LEFT), "out-of-memory", "high",
                N2,
                WAITS_0, (facts("n2", says(KILL, 100.0, 1)),)),
    EvidenceSet("OOM kill of the host, likely", (killed(1, out_of_memory=PERHAPS), *BOTH_LEFT), "out-of-memory",
                "medium", N2, WAITS_0),
    EvidenceSet("OOM kill of a data loader", (own(1, error="RuntimeError: DataLoader worker (pid 4121) is killed"),
                *BOTH_LEFT), "rank-failed", "high", N2, WAITS_0, (facts("n2", says(KILL, 99.9)),)),
    EvidenceSet("CUDA out of memory", (own(1,
                error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
                *BOTH_LEFT), "out-of-memory", "high", N2, WAITS_0),
    EvidenceSet("file system full", (own(1, error=FULL), *BOTH_LEFT), "storage", "high", N2, WAITS_0),
    EvidenceSet("stale file handle", (own(1, error="OSError: [Errno 116] Stale file handle: '/data/x'"), *BOTH_LEFT),
                "storage", "high", N2, WAITS_0),
    EvidenceSet("I/O error with the kernel's line", (own(1, error="OSError: [Errno 5] Input/output error"),
                *BOTH_LEFT),
                "storage", "high", N2, WAITS_0, (facts("n2", says(DISK, 99.5)),)),
    EvidenceSet("broken memory", (killed(1, signum=SIGBUS), *BOTH_LEFT), "rank-killed", "high", N2, WAITS_0,
                (facts("n2", says(BROKEN_MEMORY, 99.9, 1)),)),
    EvidenceSet("GPU error that the rank reports", (own(1, error="CUDA error: uncorrectable ECC error encountered"),
                *BOTH_LEFT), "gpu", "high", N2, WAITS_0, (facts("n2", says(FALLEN, 99.5)),)),
    EvidenceSet("illegal access, an Xid of the program", (own(1,
                error="CUDA error: an illegal memory access was encountered"),
                *BOTH_LEFT), "rank-failed", "high", N2, WAITS_0, (facts("n2", says(ILLEGAL, 99.9)),)),
    EvidenceSet("illegal access, after the GPU fell off the bus", (own(1,
                error="CUDA error: an illegal memory access was encountered"),
                *BOTH_LEFT), "gpu", "high", N2, WAITS_0, (facts("n2", says(FALLEN, 99.5)),)),
    EvidenceSet("launcher alone", (RankEnd(None, "n1", 1, None, 100.0, stopped=False), ended(0), ended(1), ended(2)),
                "launcher-failed", "medium", Named("n1", None), states(waiting(0), waiting(1), waiting(2))),
    # Several failures within a moment.
    EvidenceSet("two failures, clocks too coarse", (own(0, 100.0, "ValueError: a", uncertainty_s=0.01),
                own(1, 100.005, "KeyError: b", uncertainty_s=0.01), ended(2)), "rank-failed", "low", None,
                states(waiting(2))),
    EvidenceSet("two failures with the same text", (own(0, 100.0, "ValueError: a", uncertainty_s=0.01),
                own(1, 100.005, "ValueError: a", uncertainty_s=0.01), ended(2)), "rank-failed", "medium", None,
                states(waiting(2))),
    EvidenceSet("two failures, clocks fine enough", (own(0, 100.05, "ValueError: a", uncertainty_s=0.01),
                own(1, 100.0, "KeyError: b", uncertainty_s=0.01), ended(2)), "rank-failed", "high", N2,
                states(waiting(2))),
    EvidenceSet("a kill and an exception within a moment", (own(0, 100.0, "RuntimeError: x", uncertainty_s=0.01),
                killed(1, 100.005, uncertainty_s=0.01), ended(2)), "rank-killed", "high", N2, states(waiting(2))),
    EvidenceSet("an unknown text about peers", (own(0, 100.0, "CommError: peer went away"), killed(1, 103.0),
                ended(2)),
                "rank-failed", "medium", N1, states(waiting(2))),
    EvidenceSet("an unknown text about peers, a GPU lost elsewhere", (own(0, 100.0, "CommError: peer went away"),
                ended(1),
                ended(2)), "gpu", "medium", NODE_2, states(waiting(1), waiting(2)), (facts("n2", says(FALLEN,
                98.0)),)),
    EvidenceSet("a text about peers that a clock that was set dates back", (own(0, 40.0, "CommError: peer went away"),
                own(1, 100.0, "ValueError: no data"), ended(2)), "rank-failed", "high", N2, states(waiting(2)),
                (facts("n1", clock_step_s=-60.1),)),
    EvidenceSet("two failures, and the clock of one host was set", (own(0, 99.0, "ValueError: a"),
                own(1, 100.0, "KeyError: b"), ended(2)), "rank-failed", "low", None, states(waiting(2)),
                (facts("n2", clock_step_s=3.0),)),
    # Victims only.
    EvidenceSet("victims of nobody known", (*VICTIMS, victim(1, 100.1)), None, None, None),
    EvidenceSet("two had not ended", (victim(0), ended(1), ended(2)), None, None, None, states(waiting(1),
                waiting(2))),
    EvidenceSet("stopped", (*VICTIMS, ended(1)), "rank-stopped", "high", N2, states(waiting(1, "T"))),
    EvidenceSet("traced by a debugger", (*VICTIMS, ended(1)), "rank-stopped", "high", N2, states(waiting(1, "t"))),
    EvidenceSet("two stopped", (victim(0), ended(1), ended(2)), "rank-stopped", "medium", None,
                states(waiting(1, "T"), waiting(2, "T"))),
    EvidenceSet("stopped, and its peers see it not reading", (*VICTIMS, ended(1)), "rank-stopped", "high", N2,
                states(waiting(1, "T")), (facts("n1", stuck=(stuck("n2", retransmits=1),)),)),
    EvidenceSet("exit 0 early", (left(1), victim(0, symptom=LOST), victim(2, symptom=LOST)), "exited-early",
                "medium", N2),
    EvidenceSet("two exit 0 early", (left(0), left(1, 91.0), victim(2, symptom=LOST)), "exited-early", "low",
                None),
    EvidenceSet("exit 0 near the victims, clocks too coarse", (RankEnd(1, "n2", 0, None, 99.9, stopped=False,
                uncertainty_s=0.5), victim(0), victim(2, 100.2)), None, None, None),
    EvidenceSet("exit 0 after the victims", (victim(0), left(1, 101.0), victim(2, 100.2)), None, None, None),
    EvidenceSet("one had not ended", (*VICTIMS, ended(1)), "rank-silent", "low", N2, states(waiting(1))),
    EvidenceSet("an abort after the victims", (*VICTIMS, killed(1, 100.9, SIGABRT)), "rank-failed", "low", N2),
    # Facts of hosts.
    EvidenceSet("GPU lost, victims only", (*VICTIMS, victim(1, 100.1)), "gpu", "medium", NODE_2,
                hosts=(facts("n2", says(FALLEN, 70.0)),)),
    EvidenceSet("GPU lost, its rank had not ended", (*VICTIMS, ended(1)), "gpu", "medium", NODE_2, states(waiting(1)),
                (facts("n2", says(FALLEN, 70.0)),)),
    EvidenceSet("GPUs lost on two hosts", (*VICTIMS, victim(1, 100.1)), "gpu", "medium", None,
                hosts=(facts("n2", says(FALLEN, 70.0)), facts("n3", says(FALLEN, 70.5)))),
    EvidenceSet("GPU lost after the failure", (*VICTIMS, victim(1, 100.1)), None, None, None,
                hosts=(facts("n2", says(FALLEN, 108.0)),)),
    EvidenceSet("a consequence among the Xids", (*VICTIMS, victim(1, 100.1)), None, None, None,
                hosts=(facts("n2", says(CLEANUP, 99.0)),)),
    EvidenceSet("a contained memory error", (*VICTIMS, victim(1, 100.1)), "gpu", "low", None,
                hosts=(facts("n2", says(CONTAINED, 99.0)),)),
    EvidenceSet("a fatal error of the NVSwitch", (*VICTIMS, victim(1, 100.1)), "gpu", "medium", NODE_2,
                hosts=(facts("n2", says(FATAL_LINK, 80.0)),)),
    EvidenceSet("link down, nothing else", (*VICTIMS, victim(1, 100.1)), "link", "low", None,
                hosts=(facts("n2", says(DOWN, 69.0)),)),
    EvidenceSet("link down, connections stuck", (*VICTIMS, victim(1, 100.1)), "link", "medium", NODE_2,
                hosts=(facts("n2", says(DOWN, 69.0)), facts("n1", stuck=(stuck("n2", retransmits=6),)))),
    EvidenceSet("links down on all hosts", (*VICTIMS, victim(1, 100.1)), "link", "medium", None,
                hosts=(facts("n1", says(DOWN, 69.0), stuck=(stuck("n2", retransmits=6),)), facts("n2", says(DOWN,
                69.2)),
                       facts("n3", says(DOWN, 69.1)))),
    EvidenceSet("link down after the failure", (*VICTIMS, victim(1, 100.1)), None, None, None,
                hosts=(facts("n2", says(DOWN, 110.0)),)),
    EvidenceSet("blocked between two hosts", (*VICTIMS, ended(1)), "path-blocked", "medium", None, states(waiting(1)),
                (facts("n1", stuck=(stuck("n2", retransmits=5),)),)),
    EvidenceSet("one host is cut off", (*VICTIMS, ended(1)), "path-blocked", "medium", NODE_2, states(waiting(1)),
                (facts("n1", stuck=(stuck("n2", retransmits=5),)), facts("n3", stuck=(stuck("n2", retransmits=5),)))),
    EvidenceSet("everybody is cut off", (*VICTIMS, victim(1, 100.1)), "path-blocked", "medium", None,
                hosts=(facts("n1", stuck=(stuck("n2", retransmits=5), stuck("n3", retransmits=5))),
                       facts("n3", stuck=(stuck("n1", retransmits=5), stuck("n2", retransmits=5))))),
    EvidenceSet("one retransmission is no blocked path", (*VICTIMS, victim(1, 100.1)), None, None, None,
                hosts=(facts("n1", stuck=(stuck("n2", retransmits=1),)),)),
    EvidenceSet("file server silent, the rank waits for it", (*VICTIMS, ended(1)), "storage", "medium", N2,
                states(waiting(1, "D")), (facts("n2", says(SERVER, 60.0)),)),
    EvidenceSet("file server silent everywhere", (victim(0), ended(1), ended(2)), "storage", "medium", None,
                states(waiting(1, "D"), waiting(2, "D")), (facts("n2", says(SERVER, 60.0)), facts("n3", says(SERVER,
                60.1)))),
    EvidenceSet("a disk error, and nobody waits", (*VICTIMS, victim(1, 100.1)), "storage", "low", None,
                hosts=(facts("n2", says(DISK, 60.0)),)),
    EvidenceSet("read-only, the rank waits", (*VICTIMS, ended(1)), "storage", "medium", N2, states(waiting(1, "D")),
                (facts("n2", says(READ_ONLY, 60.0)),)),
    EvidenceSet("a task of the rank hangs", (*VICTIMS, ended(1)), "storage", "medium", N2, states(waiting(1, "D")),
                (facts("n2", says(HUNG, 60.0, 1)),)),
    EvidenceSet("the clock was set", (victim(0, symptom=STORE), victim(1, 100.2, STORE), victim(2, 100.2, STORE)),
                "clock-step", "low", None, hosts=(facts("n2", clock_step_s=40.0),)),
    EvidenceSet("versions differ", (*VICTIMS, victim(1, 100.1)), "versions-differ", "low", None,
                findings=(Finding(ATTESTATION, Severity.WARN, ("n2",), "nccl: 2.28, expected 2.27 as on n[1,3]"),)),
    # Nodes.
    EvidenceSet("node lost", (victim(0, symptom=LOST), victim(2, symptom=LOST)), "node-lost", "medium", NODE_2,
                {"n1": (), "n3": ()}, lost={"n2": "no heartbeat for 10 s"}),
    EvidenceSet("node lost, and others wait for it", (victim(0), victim(2)), "node-lost", "high", NODE_2,
                {"n1": (), "n3": ()}, (facts("n1", stuck=(stuck("n2", retransmits=6),)), facts("n2")),
                {"n2": "no heartbeat for 10 s"}),
    EvidenceSet("two nodes lost", (victim(0, symptom=LOST),), "node-lost", "medium", None, {"n1": ()},
                lost={"n2": "no heartbeat for 10 s", "n3": "no heartbeat for 10 s"}),
    EvidenceSet("agent lost, and its host answers", (victim(0, symptom=LOST), victim(2, symptom=LOST)), "agent-lost",
                "medium", NODE_2, {"n1": (), "n3": ()}, lost={"n2": ENDED}, answering=frozenset({"n2"})),
    EvidenceSet("node restarted", (victim(0, symptom=LOST), victim(2, symptom=LOST)), "node-restarted", "high",
                NODE_2, {"n1": (), "n3": ()}, lost={"n2": RESTARTED}, answering=NODES_2, restarted=NODES_2),
    EvidenceSet("an agent lost, and another node restarted", (victim(0, symptom=LOST),), "agent-lost", "medium", None,
                {"n1": ()}, lost={"n2": RESTARTED, "n3": ENDED}, answering=frozenset({"n2", "n3"}), restarted=NODES_2),
    EvidenceSet("two agents lost, and their hosts answer", (victim(0, symptom=LOST),), "agent-lost", "medium", None,
                {"n1": ()}, lost={"n2": ENDED, "n3": ENDED}, answering=frozenset({"n2", "n3"})),
    EvidenceSet("everything of the user is ended", (killed(1, signum=SIGTERM), victim(0, 100.3, LOST), victim(2, 100.3,
                LOST)), "signalled", "medium", NODE_2, stopping=f"n2: {SIGNALLED}"),
    EvidenceSet("agent lost, and another node", (victim(0, symptom=LOST),), "node-lost", "medium", None, {"n1": ()},
                lost={"n2": ENDED, "n3": "no heartbeat for 10 s"}, answering=frozenset({"n2"})),
    EvidenceSet("a failure before the agent was lost", (own(0, 50.0, "ValueError: no data"), victim(2)), "rank-failed",
                "high", N1, {"n1": (), "n3": ()}, lost={"n2": ENDED}, answering=frozenset({"n2"})),
    EvidenceSet("the Slurm job of all nodes ended", (victim(0, symptom=LOST),), "job-ended", "high", None,
                lost={f"n{each}": "Slurm job 17 has ended" for each in (1, 2, 3)}),
    EvidenceSet("a failure before the node was lost", (own(0, 50.0, "ValueError: no data"), victim(2)), "rank-failed",
                "high", N1, {"n1": (), "n3": ()}, lost={"n2": "no heartbeat for 10 s"}),
    EvidenceSet("an unknown text about peers, and a lost node", (own(0, 100.0, "CommError: peer went away"), victim(2,
                101.0)), "node-lost", "medium", NODE_2, {"n1": (), "n3": ()}, lost={"n2": "no heartbeat for 10 s"}),
    EvidenceSet("data of another size", (*VICTIMS, victim(1, 100.1, "received data of another size than it expects")),
                "ranks-disagree", "medium", None),
    # Reports that are missing.
    EvidenceSet("an exception, and a node that did not report", (own(1, error="ValueError: no data"), ended(0),
                ended(2)),
                "rank-failed", "low", N2, {"n1": (waiting(0),), "n2": ()}),
)  # fmt: skip
