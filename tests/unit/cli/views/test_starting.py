from pylaunch.cli.views.starting import lines
from pylaunch.launch.attempts import NoRestart, Restarting
from pylaunch.launch.start.agreement import NodeDifference
from pylaunch.launch.start.session import Start
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.finding import Finding, Severity
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import plan_run, replan
from pylaunch.preflight.result import REACH
from pylaunch.workflows.start_events import (
    FindingReported,
    NodesDiffer,
    RanksReleased,
    RunBegun,
    StartEvent,
    TreeChanged,
    Waiting,
)

CLUSTER = Cluster((Host("n1", "10.0.0.1"), Host("n2", "10.0.0.2")))
PLAN = plan_run(CLUSTER, JobSpec(("true",), Framework.COMMAND, "/", spares=1, max_restarts=3), "7f3a9c01")


def shown(event: StartEvent) -> str:
    return "\n".join(lines(event))


def test_changed_files_are_named_up_to_three() -> None:
    assert shown(TreeChanged(("a.py",))) == (
        "warning: changed since the tree was read: a.py; all nodes have what was there before"
    )
    assert "a, b, c and 2 more; all nodes" in shown(TreeChanged(("a", "b", "c", "d", "e")))


def test_a_restart_is_shown_with_its_number_and_reason() -> None:
    restarting = Restarting(replan(PLAN, ("n2",)), "n2 in place of n1: lost")
    assert shown(restarting) == "restart 1 of 3 (n2 in place of n1: lost): run 7f3a9c01.1"
    assert shown(NoRestart("the run was stopped")) == "no restart: the run was stopped"


def test_a_start_is_timed_by_phase_with_the_skew_of_its_release() -> None:
    start = Start({"connect": 0.5, "prepare": 1.25, "release": 0.06}, 0.0012, 0.0004)
    assert shown(RanksReleased(PLAN, start)) == (
        "started in 1.81 s (connect 0.50, prepare 1.25, release 0.06); release skew 1.2 ms ± 0.4"
    )


def test_a_host_that_only_the_probe_did_not_reach_is_unknown_and_has_no_fix() -> None:
    finding = Finding(REACH, Severity.UNKNOWN, ("n1",), "cannot be asked: no answer", "ping n1")
    assert shown(FindingReported(finding)) == "????  n1: cannot be asked: no answer"


def test_the_queue_and_differences_of_nodes_are_shown_as_they_are_reported() -> None:
    assert shown(Waiting(("n1: device 0, run 1a2b", "n2: port 29500"))) == (
        "waiting for n1: device 0, run 1a2b; n2: port 29500"
    )
    drift = "what differs: pylaunch drift"
    differ = NodesDiffer((NodeDifference("torch: 2.8 on n2", drift), NodeDifference("nccl: none on n2", drift)))
    assert shown(differ).splitlines() == [
        "warning: hosts differ: torch: 2.8 on n2",
        "warning: hosts differ: nccl: none on n2",
        "hint: what differs: pylaunch drift",
    ]
    assert shown(RunBegun(PLAN)) == ""
