"""Runs for the HTML report: a large one that hangs, and one whose ranks print hostile text."""

from dataclasses import replace

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.cause import FailureCause
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.model.plan import RunPlan, plan_run
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.protocol.node_evidence import RankEnd

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
    FailureCause("out-of-memory", "the kernel killed rank 149", Confidence.MEDIUM, evidence=("oom_kill rose by 1",),
                 question="does it fail at the same step with half the batch?"),
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
    with_causes = replace(outcome, causes=CAUSES)
    return RunRecord(of, "0123456789abcdef", BEGUN, events(of), with_causes, started_by="alice on laptop")


def large() -> RunRecord:
    """256 ranks on 64 nodes, of which one reads a file while the others wait for it."""
    of = plan(64, 4)
    return record(of, CAUSE)


def hostile() -> RunRecord:
    """Two ranks that print everything that could leave the text of a page, and hosts that report as much."""
    of = plan(2, 1)
    base = record(of, 1)
    assert base.outcome is not None
    evil = HOSTILE[:400]
    cause = FailureCause(evil, evil, Confidence.MEDIUM, evidence=(evil,), question=evil, hint=evil)
    outcome = replace(
        base.outcome, ends=tuple(replace(end, last_lines=tuple(HOSTILE.split("\n"))) for end in base.outcome.ends),
        reason=HOSTILE[:3000], evidence=(HOSTILE[:500],), hint="<b>hint</b>", causes=(cause,),
    )  # fmt: skip
    return replace(base, outcome=outcome)
