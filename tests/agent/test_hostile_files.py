"""A rank that replaces the files of its run: its node continues, and reports its end."""

from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, task

HERE = 'cd "$(dirname "$TORCHELASTIC_ERROR_FILE")/.."'
DEEP = """python3 -c "print('[' * 200000)" > "$TORCHELASTIC_ERROR_FILE"; exit 3"""
FIFOS = "mkfifo error.json && for file in ranks/0.error.json ranks/0.step; do mkfifo $file; done; exit 3"
EVERYTHING = """for file in events.jsonl task.json hostfile outcome.json logs/0.out logs/0.err times/0.out times/0.err \
ranks/0.error.json ranks/0.step agent.lock agent.log agent.sock launcher; do rm -rf $file; %s $file; done; exit 3"""


@pytest.mark.parametrize(
    "program",
    [DEEP, FIFOS, EVERYTHING % "mkfifo", EVERYTHING % "mkdir", EVERYTHING % "ln -s /dev/zero", "rm -rf -- *; exit 3"],
    ids=["deep", "fifos", "all-fifos", "all-directories", "all-links", "all-gone"],
)
def test_the_end_of_a_rank_is_reported_whatever_it_did_to_its_files(program: str, node: Node, tmp_path: Path) -> None:
    controller = node.started(task(tmp_path, f"{HERE}; {program}", log_limit=1 << 20))
    finished = controller.until(protocol.Finished)
    assert (controller.ended(0).exit_code, controller.ended(0).error, finished.leftovers) == (3, "", [])
    assert controller.receive() is None
    node.cleaned()
    assert node.ask("runs").returncode == 0
