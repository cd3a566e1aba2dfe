from dataclasses import replace

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import plan_run
from pylaunch.model.run import Event, EventKind
from pylaunch.protocol.node_evidence import RankEnd
from pylaunch.runs.events import PRINTED, LinesWritten
from pylaunch.terminal.views.live import Live
from pylaunch.terminal.views.outcome import show_outcome

HOSTS = tuple(Host(f"gpu{number:02}", f"10.0.0.{number}") for number in range(1, 12))
PLAN = plan_run(Cluster(HOSTS), JobSpec(("train.py",), Framework.TORCHRUN, "/w"), "7f3a9c01")


def test_lines_are_aligned_and_go_where_the_rank_wrote_them(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live(PLAN)
    live.show(LinesWritten("gpu02", "1.out", "loss 0.5\n\nloss 0.4\n", 1.0))
    live.show(LinesWritten("gpu11", "10.err", "no newline yet", 1.0))
    captured = capsys.readouterr()
    assert captured.out == "gpu02:1  | loss 0.5\ngpu02:1  | \ngpu02:1  | loss 0.4\n"
    assert captured.err == "gpu11:10 | no newline yet\n"


def test_a_stop_that_each_node_reports_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live(PLAN)
    for host in ("gpu01", "gpu02"):
        live.show(Event(1.0, EventKind.STOP_ASKED, host, text="rank 1 on gpu01 exited with code 1"))
    assert capsys.readouterr().err == "stopping all nodes: rank 1 on gpu01 exited with code 1\n"


def ended(end: RankEnd | None, status: Status, **more: object) -> Outcome:
    ends = () if end is None else (end,)
    return Outcome(status, "why", 9.0, ends, {}, first_failure=end, **more)  # type: ignore[arg-type]


def test_a_failure_shows_rank_host_and_exit_status_then_the_last_output_then_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    end = RankEnd(3, "gpu04", None, 9, 8.0, stopped=False, last_lines=("step 7", "CUDA error"))
    others = (RankEnd(rank, host.name, None, 15, 8.5, stopped=True) for rank, host in enumerate(HOSTS) if rank != 3)
    show_outcome(PLAN, replace(ended(end, Status.FAILED), ends=(end, *others)))
    assert capsys.readouterr().err == (
        "error: run 7f3a9c01: rank 3 on gpu04 was killed by SIGKILL; the other 10 ranks stopped with it\n"
        "  step 7\n"
        "  CUDA error\n"
        "gpu[01-11]: clean (no process, port or device lease of the run is left)\n"
        "\n"
        "hint: pylaunch logs 7f3a9c01 --rank 3\n"
    )


def test_only_ranks_that_are_known_to_have_been_stopped_are_called_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    failed = RankEnd(3, "gpu04", 1, None, 8.0, stopped=False)
    stopped = RankEnd(2, "gpu03", None, 15, 8.5, stopped=True)
    too = RankEnd(4, "gpu05", 1, None, 8.1, stopped=False)
    show_outcome(PLAN, replace(ended(failed, Status.FAILED), ends=(failed, too), unproven=("gpu01",)))
    assert capsys.readouterr().err.startswith(
        "error: run 7f3a9c01: rank 3 on gpu04 exited with code 1; rank 4 on gpu05 failed on its own, too "
        "(exited with code 1)\n"
    )
    uncertain = replace(failed, uncertainty_s=3600.0)
    show_outcome(PLAN, replace(ended(uncertain, Status.FAILED), ends=(failed,)))
    assert capsys.readouterr().err.startswith("error: run 7f3a9c01: rank 3 on gpu04 exited with code 1\n")
    show_outcome(PLAN, replace(ended(failed, Status.FAILED), ends=(failed, stopped)))
    assert "exited with code 1; 1 of the other 10 ranks stopped with it\n" in capsys.readouterr().err
    victim = RankEnd(5, "gpu06", 1, None, 8.2, stopped=False, symptom="lost its connection to another rank")
    show_outcome(PLAN, replace(ended(failed, Status.FAILED), ends=(failed, stopped, victim)))
    assert "exited with code 1; 2 of the other 10 ranks ended with it\n" in capsys.readouterr().err
    unknown = replace(victim, symptom="", error="CommError: connection to rank 3 was lost")
    show_outcome(PLAN, replace(ended(failed, Status.FAILED), ends=(failed, stopped, unknown)))
    assert "exited with code 1; 2 of the other 10 ranks ended with it\n" in capsys.readouterr().err


def test_hosts_that_are_not_proven_clean_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(
        Status.FAILED, "contact with gpu02 was lost: no route", 9.0, (), {"gpu03": ("pid 7",)}, ("gpu02",)
    )
    show_outcome(PLAN, outcome)
    printed = capsys.readouterr().err
    assert "gpu[01,04-11]: clean" in printed
    assert "gpu03: left behind: pid 7" in printed
    assert "gpu02: not known to be clean" in printed
    assert "pylaunch stop 7f3a9c01" in printed


@pytest.mark.parametrize("kind", sorted(PRINTED, key=str))
def test_a_line_for_a_person_is_printed_while_a_run_is_shown_too(
    kind: EventKind, capsys: pytest.CaptureFixture[str]
) -> None:
    Live(PLAN, label="trainer ").show(Event(1.0, kind, text="waiting for n1: device 0"))
    assert capsys.readouterr().err == "trainer waiting for n1: device 0\n"
