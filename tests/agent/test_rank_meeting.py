"""Values by which a rank meets the others, where the script or a launcher in the rank changes those that it got."""

from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_examination import program, views


def test_a_rank_that_meets_the_others_elsewhere_reports_the_values_that_it_uses(node: Node, tmp_path: Path) -> None:
    """Values in the environment, and those that a script passes to torch."""
    module = tmp_path / "lib" / "torch" / "distributed" / "rendezvous.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import time\ndef _create_c10d_store(hostname, port, rank, world_size):\n"
        "    print('up', flush=True)\n    time.sleep(600)\n"
    )
    source = f"""
import os, sys
sys.path.insert(0, {str(module.parent)!r})
from rendezvous import _create_c10d_store
os.environ.update(MASTER_ADDR="127.0.0.9", WORLD_SIZE="x" * 999, SECRET="s3cret")
_create_c10d_store(os.environ["MASTER_ADDR"], 1234, int(os.environ["RANK"]), 8)
"""
    given = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "@port@", "RANK": "0", "WORLD_SIZE": "1", "SECRET": "none"}
    ranks = [protocol.RankTask(0, 0, program(tmp_path, source), given)]
    controller = node.prepared(task(tmp_path, "true", ranks=ranks, world_size=1))
    controller.send(protocol.Release(0.0, rendezvous_port=29500))
    controller.send(protocol.Follow({}, None))
    controller.until_text("0.out", "up\n")
    assert views(controller)[0].overrides == (
        protocol.OverriddenVariable("MASTER_ADDR", "10.0.0.1", "127.0.0.9", is_argument=False),
        protocol.OverriddenVariable("MASTER_PORT", "29500", "1234", is_argument=True),
        protocol.OverriddenVariable("WORLD_SIZE", "1", "8", is_argument=True),
    )
