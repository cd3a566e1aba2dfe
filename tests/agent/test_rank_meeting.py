"""Values by which a rank meets the others, where the script or a launcher in the rank changes those that it got."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("environment", "call", "found"),
    [
        ("RANK='3'", "init_process_group()", (protocol.OverriddenVariable("RANK", "0", "3", is_argument=False),)),
        ("", "init_process_group(5, 1)", (protocol.OverriddenVariable("RANK", "0", "5", is_argument=True),)),
        ("", "init_process_group()", ()),
        ("", "init_process_group(init_method='env://')", ()),
        (
            "",
            "init_process_group(init_method='tcp://[::1]:1234?rank=0')",
            (
                protocol.OverriddenVariable("MASTER_ADDR", "10.0.0.1", "::1", is_argument=True),
                protocol.OverriddenVariable("MASTER_PORT", "29500", "1234", is_argument=True),
            ),
        ),
        (
            "",
            "init_process_group(init_method='file:///job/meet')",
            (protocol.OverriddenVariable("MASTER_ADDR", "10.0.0.1", "file:///job/meet", is_argument=True),),
        ),
    ],
)
def test_a_rank_that_fails_to_meet_the_others_at_once_reports_the_values_that_it_used(
    node: Node, tmp_path: Path, environment: str, call: str, found: tuple[protocol.OverriddenVariable, ...]
) -> None:
    module = tmp_path / "lib" / "torch" / "distributed" / "distributed_c10d.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import os\n"
        "def init_process_group(rank=-1, world_size=-1, init_method=None):\n"
        "    rank = int(os.environ['RANK']) if rank < 0 else rank\n"
        "    raise RuntimeError('rank < size')\n"
    )
    for package in (module.parent, module.parent.parent):
        (package / "__init__.py").touch()
    source = f"""
import os, sys
sys.path.insert(0, {str(tmp_path / "lib")!r})
from torch.distributed.distributed_c10d import init_process_group
os.environ.update({environment})
{call}
"""
    given = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}
    ranks = [protocol.RankTask(0, 0, program(tmp_path, source), given)]
    controller = node.started(task(tmp_path, "true", ranks=ranks, world_size=1))
    end = controller.until(protocol.RankEnd)
    assert (end.exit_code, end.failed_to_meet, end.overrides) == (1, True, found)
