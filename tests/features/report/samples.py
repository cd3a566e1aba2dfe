"""Runs for the HTML report: a large one that hangs, and one whose ranks print hostile text."""

from dataclasses import replace

from pylaunch.features.report.page.content import ReportInput
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.cause import Certainty, FailureCause, RejectedCause
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.examination import Collective, Frame, ProcessGroup, RankView, ThreadStack
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, RankEnd, StuckConnection

BEGUN = 1_780_000_000.0
CAUSE = 149

HOSTILE = "\n".join(
    [
        "<script>document.title='owned'</script><img src=x onerror=alert(1)>",
        "</pre></details></main><h1>not ours</h1>",
        "{{ 7 * 7 }} {% for x in y %}",
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J",
        "right to left \u202e txet neddih \u2066 isolate",
        "nul \x00 bell \x07 delete \x7f c1 \x9b31m surrogate \udcff",
        "tag \U000e0041 separator \u2028 end",
        "&amp;&lt;script&gt;",
        "x" * 1_000_000,
        "<" * 1_000_000,
    ]
)


def plan(nodes: int, ranks: int) -> RunPlan:
    """A run of torchrun on `nodes` hosts with `ranks` ranks each."""
    hosts = tuple(Host(f"gpu{number:03}", f"10.0.0.{number}") for number in range(1, nodes + 1))
    job = JobSpec(("train.py", "--epochs", "3"), Framework.TORCHRUN, "/srv", ranks_per_node=ranks)
    return plan_run(Cluster(hosts, sources=("/srv/cluster.ini",)), job, "7f3a9c01")


def events(of: RunPlan) -> tuple[Event, ...]:
    """A start of three seconds in which every node is a little later than the one before."""
    found = []
    for index, node in enumerate(of.nodes):
        name, late = node.host.name, index * 0.01
        found.append(Event(BEGUN + 2 + late, EventKind.PREPARED, name, seconds={"connect": 0.5 + late, "prepare": 1.2}))
        for rank in node.ranks:
            found.append(Event(BEGUN + 3 + late / 10, EventKind.RANK_STARTED, name, rank.rank, "pid 4242"))
    phases = {"connect": 0.9, "prepare": 1.2, "release": 0.1, "skew": 0.06}
    return (*found, Event(BEGUN + 3.1, EventKind.RELEASED, seconds=phases))


def ends(of: RunPlan, cause: int) -> tuple[RankEnd, ...]:
    """Rank `cause` is killed; all others are stopped."""
    return tuple(
        RankEnd(
            rank.rank,
            node.host.name,
            None,
            9 if rank.rank == cause else 15,
            BEGUN + 63 + rank.rank / 1000,
            stopped=rank.rank != cause,
            last_lines=tuple(f"[rank{rank.rank}] step {step} loss={step / 7:.4f} tokens/s=18233" for step in range(30)),
            step=29,
        )
        for node in of.nodes
        for rank in node.ranks
    )


CAUSES = (
    FailureCause("out-of-memory", "the kernel killed rank 149", Certainty.LIKELY, evidence=("oom_kill rose by 1",),
                 question="does it fail at the same step with half the batch?"),
    FailureCause("storage-stall", "a disk was slow", Certainty.POSSIBLE, evidence=("io full 31 %",)),
)  # fmt: skip
REJECTED = (RejectedCause("rank 3 lost its connection", "it is a victim of rank 149"),)
HOSTS = (
    HostEvidence(
        "gpu038", BEGUN + 63, 0.001,
        kernel=(KernelEvent("oom-kill", BEGUN + 62, "Out of memory: Killed process 4242 (python)", rank=149),),
        stuck=(StuckConnection(150, "ESTABLISHED", "10.0.0.1", 29500, 4096, 0, 7, 0),),
        rises={"eth0 carrier_changes": 2}, missing=("kernel messages need root",),
    ),
)  # fmt: skip


def record(of: RunPlan, cause: int) -> RunRecord:
    """The record of a run that `cause` ended."""
    all_ends = ends(of, cause)
    first = next(end for end in all_ends if end.rank == cause)
    outcome = Outcome(
        Status.FAILED, f"{first.who} was killed by SIGKILL after step 29: out of memory (limit of the cgroup: 4.0 GiB)",
        BEGUN + 64, all_ends, {}, first_failure=first, named=Named(first.host, cause),
        evidence=("the kernel killed process 4242 (python) of cgroup /pylaunch/7f3a9c01", "memory.max 4294967296"),
    )  # fmt: skip
    with_causes = replace(outcome, causes=CAUSES, rejected=REJECTED, hosts=HOSTS)
    return RunRecord(of, "0123456789abcdef", BEGUN, events(of), with_causes, started_by="alice on laptop")


def views(of: RunPlan, cause: int) -> tuple[RankView, ...]:
    """All ranks but `cause` wait in collective 412 of group dp."""
    group = ProcessGroup("0", "dp", tuple(range(of.world_size)))
    found = []
    for node in of.nodes:
        for rank in node.ranks:
            is_late = rank.rank == cause
            call = (
                Frame("read_shard", "/srv/data.py", 71) if is_late else Frame("all_reduce", "/env/torch/dist.py", 2877)
            )
            outer = Frame("train", "/srv/train.py", 214)
            last = Collective("0", 411 if is_late else 412, "all_reduce", ((4096, 1024),), ((4096, 1024),),
                              ("float32",), is_retired=is_late)  # fmt: skip
            stack = ThreadStack("MainThread", is_main=True, frames=(call, outer))
            found.append(
                RankView(
                    rank.rank,
                    node.host.name,
                    BEGUN + 60,
                    0.001,
                    4242,
                    "D" if is_late else "S",
                    31.0,
                    "helper",
                    threads=(stack,),
                    groups=(group,),
                    collectives=(last,),
                )
            )
    return tuple(found)


FINDINGS = (
    Finding(
        "time.offset", Severity.WARN, ("gpu003",), "clock is 41 ms behind", "chronyc makestep", evidence=("-41 ms",)
    ),
)


def large() -> ReportInput:
    """256 ranks on 64 nodes, of which one reads a file while the others wait for it."""
    of = plan(64, 4)
    names = [node.host.name for node in of.nodes]
    facts = {name: {"torch": "2.13.0", "nccl": "2.27.3" if name != "gpu007" else "2.26.2"} for name in names}
    variables = {name: {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8" if name != "gpu009" else "1"} for name in names}
    return ReportInput(
        record(of, CAUSE), BEGUN + 70, FINDINGS, views(of, CAUSE), facts=facts, variables=variables,
        versions={"pylaunch": "0.1.0", "python": "3.11.7"}, missing=("gpu064: no route to host",),
    )  # fmt: skip


def hostile() -> ReportInput:
    """Two ranks that print everything that could leave the text of a page, and hosts that report as much."""
    of = plan(2, 1)
    base = record(of, 1)
    assert base.outcome is not None
    evil = HOSTILE[:400]
    cause = FailureCause(evil, evil, Certainty.LIKELY, evidence=(evil,), question=evil, hint=evil)
    facts = HostEvidence(evil, BEGUN, 0.0, (KernelEvent(evil, BEGUN, evil),), rises={evil: 1}, missing=(evil,))
    outcome = replace(
        base.outcome, reason=HOSTILE[:3000], evidence=(HOSTILE[:500],), hint="<b>hint</b>", causes=(cause, cause),
        rejected=(RejectedCause(evil, evil),), hosts=(facts,),
    )  # fmt: skip
    finding = Finding("code.tree", Severity.FAIL, ("gpu001",), evil, evil, evidence=(evil,))
    place = Frame("<script>f</script>", "</code></pre>", 1)
    view = RankView(
        1, "gpu002", BEGUN, 0.1, 7, "\u202e", 0.0, "helper", note="<script>",
        threads=(ThreadStack("m", is_main=True, frames=(place,)),),
        collectives=(Collective("<i>", 1, "</table>", ((1,),), (), ("<b>",), is_retired=False),),
    )  # fmt: skip
    return ReportInput(
        replace(base, outcome=outcome), BEGUN + 70, (finding,), (view,), logs={0: HOSTILE, 1: HOSTILE},
        facts={"gpu001": {"<x>": "</dl>"}, "gpu002": {"<x>": "\u202e"}}, variables={}, versions={"<v>": "</main>"},
        missing=("<script>alert(2)</script>",),
    )  # fmt: skip
