"""Signs of life of ranks reach a controller that requests them, and only when they change."""

from pathlib import Path

from pylaunch import protocol
from pylaunch.agent.telemetry import ActivityMeter
from tests.agent.controller import Node, task


def test_output_of_a_rank_is_a_sign_of_life(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "echo 12345; sleep 60"))
    controller.send(protocol.Follow({}, [], activity_s=0.05), protocol.Release(0.0))
    while True:
        [signs] = controller.until(protocol.Activity).ranks
        if signs.written:
            break
    assert (signs.rank, signs.written, signs.step) == (0, 6, None)
    controller.send(protocol.Stop(0.0, "seen enough"))
    assert controller.until(protocol.Finished).leftovers == []


def test_a_rank_that_does_nothing_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("12345\n")
    streams = {"3.out": str(tmp_path / "out"), "3.err": str(tmp_path / "absent")}
    meter = ActivityMeter(1.0, lambda: [3], streams, lambda rank: 7)
    assert meter.read(100.0) == protocol.Activity([protocol.RankSigns(3, 6, 7)])
    assert meter.read(100.5) is None
    assert meter.read(102.0) is None
    (tmp_path / "out").write_text("123456\n")
    assert meter.read(104.0) == protocol.Activity([protocol.RankSigns(3, 7, 7)])
