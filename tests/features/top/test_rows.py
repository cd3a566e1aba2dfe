"""From reports of nodes to rows."""

from pylaunch.base.dataclass import replace
from pylaunch.features.top.rows import NODE_COLUMNS, RUN_COLUMNS, LiveRun, node_rows, run_rows, wanted_nodes
from pylaunch.model.job import RolePart
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, EventKind
from tests.features.top.samples import hangs, live_run, report_all, training, usage, writes

NOW = 1000.0


def cells(run: LiveRun, now: float = NOW) -> dict[str, str]:
    """The row of a run by column."""
    (row,) = run_rows([run], (), now)
    return dict(zip(RUN_COLUMNS, row.cells, strict=True))


def test_a_run_shows_its_slowest_rank_and_when_that_advanced_last() -> None:
    run = training(live_run(), NOW)
    run.take(usage(run, "gpu01", 130, NOW), NOW)
    writes(run, 3, "loss 0.2", NOW)
    shown = cells(run, NOW + 4)
    assert shown == {
        "RUN": "7f3a9c01", "STATE": "running", "NODES": "gpu[01-02]", "STEP": "120/1000", "RATE": "2 steps/s",
        "TREND": "+0%", "SINCE": "4 s", "JOB": "train.py", "LAST LINE": "rank 3 | loss 0.2",
    }  # fmt: skip


def test_the_trend_compares_with_the_rate_before_and_abstains_without_one() -> None:
    run = training(live_run(), NOW, seconds=20)
    assert cells(run)["TREND"] == "-", "two samples are no trend"
    run = training(live_run(), NOW)
    step = 120.0
    for number in range(1, 31):
        step += 2
        report_all(run, int(step), NOW + 2 * number)
    assert cells(run, NOW + 60)["TREND"] == "-50%"
    assert cells(run, NOW + 200)["RATE"] == "-", "the next step is overdue"


def test_a_rank_that_stalls_has_no_rate_and_an_age_that_grows() -> None:
    run = training(live_run(), NOW)
    assert (cells(run, NOW + 90)["RATE"], cells(run, NOW + 90)["SINCE"]) == ("-", "1 min 30 s")


def test_a_node_that_stops_answering_loses_its_load_and_shows_the_age_of_its_last_answer() -> None:
    run = training(live_run(), NOW)
    run.take(Event(NOW + 8, EventKind.CONTACT_LOST, "gpu02", text="no heartbeat for 8 s"), NOW + 8)
    row = next(row for row in node_rows(run, (), NOW + 12) if row.key == ("node", "gpu02"))
    assert row.cells == ("gpu02", "12 s", "", "no contact: no heartbeat for 8 s")
    assert row.is_alert
    assert cells(run)["STATE"] == "running, 1 silent"
    assert run.notes(NOW) == ["no contact with gpu02: no heartbeat for 8 s"]
    run.take(Event(NOW + 14, EventKind.CONTACT_REGAINED, "gpu02"), NOW + 14)
    assert cells(run)["STATE"] == "running"


def test_lines_of_a_rank_do_not_make_the_load_of_its_node_younger() -> None:
    run = training(live_run(), NOW)
    writes(run, 0, "still here", NOW + 7)
    assert node_rows(run, (), NOW + 7)[0].cells[1] == "7 s"


def test_nodes_and_ranks_have_a_row_each() -> None:
    run = training(live_run(), NOW)
    writes(run, 1, "epoch 3", NOW)
    run.take(Event(NOW, EventKind.RANK_ENDED, "gpu02", 3), NOW)
    rows = node_rows(run, (), NOW + 1)
    assert [row.key for row in rows] == [
        ("node", "gpu01"), ("rank", "0"), ("rank", "1"), ("node", "gpu02"), ("rank", "2"), ("rank", "3"),
    ]  # fmt: skip
    assert len(rows[0].cells) == len(NODE_COLUMNS)
    assert rows[0].cells[3].startswith("gpu  97%  64 GiB of 80 GiB  cpu  31%")
    assert rows[2].cells == ("  rank 1", "1 s", "120", "epoch 3")
    assert rows[5].cells[3] == "ended | "


def test_text_of_ranks_nodes_and_agents_cannot_move_the_cursor_or_leave_its_cell() -> None:
    run = live_run()
    report_all(run, 1, NOW)
    writes(run, 0, "\x1b[2J\x1b]0;title\x07[red]a\tb\x1b[31mc\u202e", NOW)
    run.take(Event(NOW, EventKind.CONTACT_LOST, "gpu01", text="gone\x1b[2J\nrun 1 done"), NOW)
    assert run_rows([run], (), NOW)[0].cells[-1] == "rank 0 | [red]a bc\\u202e"
    shown = [cell for row in (*run_rows([run], (), NOW), *node_rows(run, (), NOW)) for cell in row.cells]
    assert all(cell.isprintable() for cell in [*shown, *run.notes(NOW)])
    assert "no contact: gone\\x1b[2J\\nrun 1 done" in shown


def test_a_finding_of_the_hang_watcher_is_quoted_with_its_age() -> None:
    run = training(live_run(), NOW)
    hangs(run, "hang: rank 2 on gpu02 waits in read", NOW)
    assert cells(run)["STATE"] == "running, hang"
    assert run.notes(NOW + 65) == ["hang: rank 2 on gpu02 waits in read (1 min 5 s ago)"]


def test_a_run_is_done_only_with_an_outcome_that_says_so() -> None:
    run = training(live_run(), NOW)
    run.trouble = "no node can be reached"
    assert cells(run)["STATE"] == "unreachable"
    outcome = Outcome(Status.DONE, "all ranks exited with code 0", NOW, (), {}, unproven=("gpu02",))
    run.record = replace(run.record, outcome=outcome)
    assert cells(run)["STATE"] == "done, unproven"
    assert run.notes(NOW)[1] == "gpu02: not known to be clean"


def test_a_filter_leaves_runs_and_nodes_with_a_name_that_contains_a_word() -> None:
    small, large = live_run("11111111", 1), live_run("22222222", 12)
    assert [row.key[1] for row in run_rows([small, large], wanted_nodes("gpu[10-11]"), NOW)] == ["22222222"]
    assert [row.key[1] for row in node_rows(large, wanted_nodes("pu03,x"), NOW)] == ["gpu03", "4", "5"]
    assert wanted_nodes("gpu[1") == ("gpu[1",), "while it is typed"
    assert len(run_rows([small, large], wanted_nodes(""), NOW)) == 2


def test_a_part_of_a_job_is_named_by_job_and_part() -> None:
    part = RolePart("7f3a9c00", "rlhf", "rollout", "rollout.0")
    assert cells(live_run(part=part))["JOB"] == "rlhf rollout.0"
