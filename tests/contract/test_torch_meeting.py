"""A rank of torch notes at its exit by which values it met the others, and whether it failed to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pylaunch import protocol
from tests.agent.controller import Controller, Node, task

SOURCE = """
import datetime, os
import torch.distributed as dist

own = os.environ.get("PORT_OF_" + os.environ["RANK"])
if own:
    os.environ["MASTER_PORT"] = own
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3 if own == "1" else 600))
dist.barrier()
dist.destroy_process_group()
"""


def met(
    node: Node, tmp_path: Path, python: Path, ports: Mapping[int, int], **changes: Any
) -> tuple[dict[int, protocol.RankEnd], Controller]:
    """Return the ends of two ranks that meet at the port of the run, or at their own in `ports`."""
    (tmp_path / "train.py").write_text(SOURCE)
    words = [str(python), "train.py"]
    env = {"GLOO_SOCKET_IFNAME": "lo", "PATH": "/usr/bin:/bin"}
    env |= {f"PORT_OF_{rank}": str(port) for rank, port in ports.items()}
    asked = task(tmp_path, words, words, env=env, python=str(python), choose_port=True, grace_s=1.0, **changes)
    for rank in asked.ranks:
        rank.env.update(RANK=str(rank.rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="@port@")
    controller = node.prepared(asked)
    (ready,) = controller.all(protocol.Ready)
    controller.send(protocol.Follow({}, None), protocol.Release(0.0, rendezvous_port=ready.rendezvous_port))
    while controller.receive(300.0) is not None:
        pass
    ends = {end.rank: end for end in controller.all(protocol.RankEnd) if end.rank is not None}
    return ends, controller


def port_of_the_run(controller: Controller) -> str:
    (ready,) = controller.all(protocol.Ready)
    return str(ready.rendezvous_port)


def test_ranks_that_meet_note_so_and_name_no_other_values(node: Node, tmp_path: Path, torch_python: Path) -> None:
    ends, _ = met(node, tmp_path, torch_python, {})
    assert [(end.exit_code, end.failed_to_meet, end.overrides) for end in ends.values()] == [(0, False, ())] * 2
    notes = [each.read_text() for each in (tmp_path / "root" / "runs" / "r1" / "ranks").glob("*.stacks")]
    assert [text.splitlines()[-1].endswith('"is_from_there":false}') for text in notes] == [True, True]


def test_a_rank_that_looks_for_the_others_at_another_port_notes_that_it_failed_to_meet_them(
    node: Node, tmp_path: Path, torch_python: Path
) -> None:
    ends, controller = met(node, tmp_path, torch_python, {1: 1})
    used = (protocol.OverriddenVariable("MASTER_PORT", port_of_the_run(controller), "1", is_argument=False),)
    assert (ends[1].exit_code, ends[1].failed_to_meet, ends[1].overrides) == (1, True, used)
