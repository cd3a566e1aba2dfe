"""Views of ranks that use torch on gloo: collectives with their call sites, also while C code waits, and workers."""

from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Controller, Node, task
from tests.waiting import wait_until

SOURCE = """
import os, sys, threading, time
import torch
import torch.distributed as dist

LOCK = threading.Lock()

class Locked(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, number):
        with LOCK: return number

def load(): time.sleep(600)

def reduce(tensor):
    dist.all_reduce(tensor)

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=rank, world_size=2)
pair = dist.new_group([0, 1], group_desc="pair")
alone = dist.new_group([0], group_desc="alone")
for step in range(3):
    reduce(torch.ones(2, 3))
dist.broadcast(torch.ones(4), 0, group=pair)
print("up", flush=True)
if rank == 1:
    sys.stderr = open(os.devnull, "w")  # torch warns of the call, and the test compares what the rank writes.
    dist.all_reduce(torch.ones(4), group=alone)
    LOCK.acquire()
    batches = iter(torch.utils.data.DataLoader(Locked(), num_workers=2, multiprocessing_context="fork"))
    load()
reduce(torch.ones(2, 3))
"""


def views(controller: Controller, serial: int, **asked: bool) -> dict[int, protocol.RankView]:
    controller.send(protocol.Examine(serial, within_s=5.0, **asked))
    while controller.until(protocol.Examined).serial != serial:
        pass
    return {each.rank: each for each in controller.all(protocol.RankView) if each.serial == serial}


def functions(seen: protocol.RankView) -> list[str]:
    """Return the functions in which the main thread is, the innermost first."""
    return [each.function for each in seen.threads[0].frames] if seen.threads else []


def test_a_rank_that_is_late_for_a_collective_is_seen_in_the_views_of_all_ranks(
    node: Node, tmp_path: Path, torch_python: Path
) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    words = [str(torch_python), "train.py"]
    asked = task(tmp_path, words, words, env={"GLOO_SOCKET_IFNAME": "lo"}, python=str(torch_python))
    for rank in asked.ranks:
        rank.env["RANK"] = str(rank.rank)
    controller = node.started(asked)
    serial = 0

    def late() -> dict[int, protocol.RankView]:
        nonlocal serial
        serial += 1
        found = views(controller, serial, call_sites=True)
        if found.keys() != {0, 1}:
            return {}  # Not released yet.
        pending = [each for each in found[0].collectives if not each.is_retired]
        waits, loads = pending and "all_reduce" in functions(found[0]), functions(found[1])[:1] == ["load"]
        return found if waits and loads and len(found[1].collectives) == 4 else {}

    found = wait_until(late, "rank 0 in its fourth all_reduce, rank 1 in load", 180.0)
    waits, loads = found[0], found[1]
    assert (waits.source, waits.note, loads.note) == ("helper", "", "")
    last = waits.collectives[-1]
    assert (last.group, last.sequence, last.operation, last.input_sizes) == ("0", 4, "all_reduce", ((2, 3),))
    assert (last.dtypes, last.is_p2p) == (("Float",), False)
    assert [each.function for each in last.call_site][-2:] == ["reduce", "<module>"]
    assert [(each.group, each.sequence, each.is_retired) for each in loads.collectives] == [
        ("0", 1, True), ("0", 2, True), ("0", 3, True), ("1", 1, True),
    ]  # fmt: skip
    assert [(group.name, group.description, group.ranks) for group in waits.groups] == [
        ("0", "default_pg", (0, 1)), ("1", "pair", (0, 1)), ("2", "alone", (0,)),
    ]  # fmt: skip

    def answered() -> dict[int, protocol.RankView]:
        nonlocal serial
        serial += 1
        found = views(controller, serial, progress=True)
        return found if all(each.source == "helper" for each in found.values()) else {}

    progress = wait_until(answered, "answers of both ranks")
    assert {each.group: (each.sequence, each.is_retired) for each in progress[0].collectives} == {
        "0": (4, False), "1": (1, True),
    }  # fmt: skip
    assert controller.text("0.err") == controller.text("1.err") == ""
