"""Of several answers of one rank, that of the process that trains is shown."""

import pytest

from pylaunch import protocol
from pylaunch.agent.evidence.examination import training_process
from pylaunch.agent.evidence.rank_answer import RankAnswer

GROUP = protocol.ProcessGroup("0", "", (0, 1))


def answer(path: str, *, groups: bool = False) -> RankAnswer:
    frames = (protocol.Frame("wait", path, 1), protocol.Frame("<module>", "/job/train.py", 9))
    threads = [protocol.ThreadStack("MainThread", True, frames)]
    return RankAnswer(threads, [GROUP] if groups else [], [])


WAITS = answer("/usr/lib/python3.11/subprocess.py")
TORCHRUN = answer("/env/lib/torch/distributed/elastic/agent/server/api.py")
WORKS = answer("/job/model.py")
IN_GROUP = answer("/job/model.py", groups=True)
WAITS_IN_GROUP = answer("/usr/lib/python3.11/subprocess.py", groups=True)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([WORKS], 0),
        ([WAITS, WORKS], 1),
        ([TORCHRUN, WORKS], 1),
        ([WORKS, WORKS], 0),
        ([WAITS, WORKS, WORKS], 1),
        ([WAITS, WAITS, WORKS], 2),
        ([WAITS, WAITS], 1),
        ([WORKS, IN_GROUP], 1),
        ([WAITS_IN_GROUP, WORKS], 0),
    ],
)
def test_the_process_that_trains(answers: list[RankAnswer], expected: int) -> None:
    assert training_process([(number, number, each) for number, each in enumerate(answers)]) == expected
    in_other_order = [(number, number, each) for number, each in reversed(list(enumerate(answers)))]
    assert training_process(in_other_order) == expected
