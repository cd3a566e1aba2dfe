"""Failures that show a fault of a node itself, and the nodes that `start --avoid-unhealthy` leaves out."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pylaunch.base import kernel_log
from pylaunch.base.dataclass import replace
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.errors import ClusterNotReadyError
from pylaunch.features.history import database, hosts
from pylaunch.features.history.faults import WINDOW_S, UnhealthyNode, fault_of, unhealthy
from pylaunch.features.history.hosts import without
from pylaunch.features.history.summary import AttemptRow
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.cause import Certainty, FailureCause, Named
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.finding import Severity
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.protocol.node_evidence import HostEvidence, KernelEvent, RankEnd, RankState
from pylaunch.verdict.verdict import Evidence, judge_lost

BEGAN = 1_780_000_000.0
HOUR = 3600.0
NODE, RANK = Named("gpu02", None), Named("gpu02", 1)
FULL = "OSError: [Errno 28] No space left on device; /data is full (0 KiB of 100 MiB free{})"
CLUSTER = Cluster(tuple(Host(name, f"10.0.0.{each}") for each, name in enumerate(("gpu01", "gpu02", "gpu03"), 1)))
JOB = JobSpec(("train.py",), Framework.COMMAND, "/srv", max_restarts=1)
SICK = UnhealthyNode("gpu02", "10.0.0.2", "node lost", (BEGAN, BEGAN + HOUR), ("aa", "bb"))


def failed(kind: str, named: Named | None, *, error: str = "", text_class: str = "") -> Outcome:
    cause = FailureCause(kind, "reason", Certainty.LIKELY, named, text_class=text_class)
    end = RankEnd(1, "gpu02", 1, None, BEGAN, stopped=False, error=error)
    return Outcome(Status.FAILED, "reason", BEGAN, (end,), {}, first_failure=end, named=named, causes=(cause,))


def of_kernel(outcome: Outcome, *kinds: str) -> Outcome:
    messages = tuple(KernelEvent(kind, BEGAN, "text") for kind in kinds)
    return replace(outcome, hosts=(HostEvidence("gpu02", BEGAN, 0.0, kernel=messages),))


def hang(kind: HangKind, *at: str, confidence: Confidence = Confidence.HIGH) -> Outcome:
    finding = HangFinding(kind, "text", confidence, hosts=at)
    return Outcome(Status.FAILED, "hang: text", BEGAN, (), {}, is_hang=True, hang=finding)


ALONE = {"gpu01": frozenset({0}), "gpu02": frozenset({1})}
VERDICT = judge_lost(Evidence(ALONE, (), {"gpu01": (RankState(0, "S", None, None),)}, {"gpu02": "no answer"}))
LOST = Outcome(Status.FAILED, VERDICT.reason, BEGAN, (), {}, named=VERDICT.named, causes=VERDICT.causes)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (LOST, "node lost"),
        (failed("gpu", NODE), "GPU error"),
        (failed("gpu", RANK, text_class="gpu-hardware"), "GPU hardware"),
        (failed("rank-failed", RANK, error="CUDA error: uncorrectable ECC error encountered"), "GPU hardware"),
        (failed("storage", RANK, error=FULL.format(" on ext4 of this node")), "disk full"),
        (of_kernel(failed("storage", NODE), kernel_log.IO_ERROR), "storage error"),
        (hang(HangKind.GPU, "gpu02"), "GPU error"),
    ],
)  # fmt: skip
def test_the_fault_of_a_node_is_its_own(outcome: Outcome, reason: str) -> None:
    assert fault_of(outcome) == ("gpu02", reason)


@pytest.mark.parametrize(
    "outcome",
    [
        failed("rank-failed", RANK, error="ValueError: bad batch"),
        failed("out-of-memory", RANK),
        failed("agent-lost", NODE),
        failed("job-ended", None),
        failed("gpu", RANK, text_class="gpu-program-fault"),
        failed("storage", RANK, error=FULL.format("")),  # It may be shared with other nodes.
        of_kernel(failed("storage", NODE), kernel_log.IO_ERROR, kernel_log.SERVER_SILENT),
        failed("storage", NODE),
        replace(LOST, named=None),
        replace(LOST, by_hand=True),
        replace(LOST, status=Status.STOPPED),
        replace(LOST, causes=(replace(LOST.causes[0], confidence=Certainty.POSSIBLE),)),
        replace(failed("storage", RANK, error=FULL.format(" on ext4 of this node")), first_failure=None),
        hang(HangKind.LATE, "gpu02"),
        hang(HangKind.GPU, "gpu01", "gpu02"),
        hang(HangKind.GPU, "gpu02", confidence=Confidence.MEDIUM),
        hang(HangKind.DISK_WAIT, "gpu02"),
    ],
)  # fmt: skip
def test_programs_victims_and_shared_services_are_no_fault_of_a_node(outcome: Outcome) -> None:
    assert fault_of(outcome) is None


def row(attempt: str, created: float, ended: float, fault: str = "node lost", host: str = "gpu02") -> AttemptRow:
    return AttemptRow(
        attempt, created, ended, "failed", 2, 2, 2.5, 60.0, "node-lost", host, "reason", "10.0.0.2", fault
    )


TWICE = [row("aa", BEGAN - HOUR, BEGAN), row("bb", BEGAN, BEGAN + HOUR)]


def test_two_failures_for_the_same_reason_within_a_day_make_a_node_unhealthy() -> None:
    assert unhealthy(TWICE, BEGAN + 2 * HOUR) == [SICK]
    assert SICK.until == BEGAN + WINDOW_S
    assert unhealthy(TWICE, SICK.until) == []
    assert unhealthy([TWICE[0], replace(TWICE[1], fault="GPU error")], BEGAN + 2 * HOUR) == []
    assert unhealthy([TWICE[0], replace(TWICE[1], host="gpu01")], BEGAN + 2 * HOUR) == []
    assert unhealthy([TWICE[0], replace(TWICE[1], address="10.9.0.2")], BEGAN + 2 * HOUR) == []
    assert unhealthy([replace(each, fault="") for each in TWICE], BEGAN + 2 * HOUR) == []


def test_one_reboot_that_ends_two_runs_is_one_failure() -> None:
    assert unhealthy([row("aa", BEGAN - HOUR, BEGAN), row("bb", BEGAN - 60, BEGAN + 1)], BEGAN + HOUR) == []


def test_an_unhealthy_node_is_left_out_and_a_spare_takes_its_place() -> None:
    assert without(CLUSTER, JOB, []) == (CLUSTER, JOB)
    two = replace(CLUSTER, hosts=(CLUSTER.hosts[0], CLUSTER.hosts[2]))
    assert without(CLUSTER, JOB, [SICK]) == (two, JOB)
    assert without(CLUSTER, replace(JOB, spares=1), [SICK]) == (two, replace(JOB, spares=0))
    assert without(CLUSTER, replace(JOB, nodes=2, spares=1), [SICK]) == (two, replace(JOB, nodes=2, spares=0))
    assert without(CLUSTER, replace(JOB, nodes=1, spares=1), [SICK]) == (two, replace(JOB, nodes=1, spares=1))


def test_too_few_healthy_nodes_are_refused_with_the_reason() -> None:
    with pytest.raises(ClusterNotReadyError, match="leaves 2 of 3 hosts, and the run needs 3") as refused:
        without(CLUSTER, replace(JOB, nodes=3), [SICK])
    (line,) = refused.value.evidence
    assert line.endswith(": gpu02: node lost, 2 times within 24 hours (runs aa, bb)")
    with pytest.raises(ClusterNotReadyError) as refused:
        without(CLUSTER, JOB, [SICK, replace(SICK, host="gpu01"), replace(SICK, host="gpu03", reason="GPU error")])
    shown = [line.partition(": ")[2] for line in refused.value.evidence]
    assert [line.partition(":")[0] for line in shown] == ["gpu[01-02]", "gpu03"], "one failure of many is one line"
    alone = replace(CLUSTER, hosts=CLUSTER.hosts[1:2])
    with pytest.raises(ClusterNotReadyError, match="leaves 0 of 1 hosts, and the run needs 1"):
        without(alone, JOB, [SICK])


def of_an_earlier_version() -> None:
    """Write a history without the columns of today, with one row."""
    database.file().parent.mkdir(parents=True, exist_ok=True)
    database.file().unlink(missing_ok=True)
    old = ", ".join(database._COLUMNS[1:-2])
    with sqlite3.connect(database.file()) as connection:
        connection.execute(f"CREATE TABLE attempts (attempt TEXT PRIMARY KEY, {old})")
        values = ["?"] * (len(database._COLUMNS) - 2)
        connection.execute(f"INSERT INTO attempts VALUES ({', '.join(values)})", database._VALUES(TWICE[0])[:-2])
    connection.close()


def test_commands_that_add_the_columns_at_the_same_time_all_have_the_history() -> None:
    for _ in range(10):
        of_an_earlier_version()
        gate = threading.Barrier(4)

        def read(gate: threading.Barrier = gate) -> int:
            gate.wait()
            return len(database.rows(0.0))

        with ThreadPoolExecutor(4) as pool:
            assert [each.result() for each in [pool.submit(read) for _ in range(4)]] == [1] * 4


def test_a_history_of_an_earlier_version_gets_the_columns_and_a_damaged_one_is_a_finding() -> None:
    of_an_earlier_version()
    assert database.rows(0.0) == [replace(TWICE[0], address="", fault="")]
    database.file().write_text("no database" * 100)
    (check,) = hosts.checks()
    (finding,) = check.judge(Survey(CLUSTER, Wanted(), {}))
    assert (finding.severity, finding.hosts) == (Severity.UNKNOWN, CLUSTER.names)
