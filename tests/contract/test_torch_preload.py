"""Ranks of torch that a template forks: gloo, DDP, workers of a DataLoader, random numbers."""

from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Controller, Node, task

SOURCE = """
import sys
had_torch = "torch" in sys.modules
import multiprocessing, os, threading
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def spawned(queue):
    queue.put(torch.ones(3).sum().item())

if __name__ == "__main__":
    drawn = torch.rand(1).item()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((4,), float(rank + 1))
    dist.all_reduce(tensor)
    torch.manual_seed(7)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    loader = DataLoader(TensorDataset(torch.ones(16, 8) * (rank + 1)), batch_size=4, num_workers=2)
    for (batch,) in loader:
        model(batch).sum().backward()
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    child = context.Process(target=spawned, args=(queue,))
    child.start()
    other = queue.get()
    child.join()
    gradient = model.module.weight.grad.tolist()[0][0]
    print(had_torch, tensor.tolist()[0], gradient, other, torch.cuda.is_initialized(), torch.get_num_threads())
    print("drawn", drawn)
    dist.barrier()
    dist.destroy_process_group()
"""
MODULES = ["torch", "torch.distributed", "torch:nn", "torch.utils.data:DataLoader"]


def over(node: Node, tmp_path: Path, python: Path, run: str, modules: list[str]) -> Controller:
    """Return the controller of a run of two ranks that is over."""
    words = [str(python), "-u", "train.py"]
    env = {"GLOO_SOCKET_IFNAME": "lo", "PATH": "/usr/bin:/bin"}
    asked = task(tmp_path, words, words, run=run, env=env, python=str(python), preload=modules, choose_port=True)
    for rank in asked.ranks:
        place = {"RANK": rank.rank, "LOCAL_RANK": rank.rank, "WORLD_SIZE": 2}
        rank.env.update({name: str(value) for name, value in place.items()})
        rank.env.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="@port@")
    controller = node.prepared(asked)
    if modules:
        assert controller.until(protocol.Preloaded).reason == ""
    (ready,) = controller.all(protocol.Ready)
    controller.send(protocol.Follow({}, None), protocol.Release(0.0, rendezvous_port=ready.rendezvous_port))
    while controller.receive(300.0) is not None:
        pass
    assert [(end.exit_code, end.signal) for end in controller.all(protocol.RankEnd)] == [(0, None), (0, None)]
    return controller


def test_torch_works_in_forked_ranks_as_in_ordinary_ones(node: Node, tmp_path: Path, torch_python: Path) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    plain = over(node, tmp_path, torch_python, "plain", [])
    warm = over(node, tmp_path, torch_python, "warm", MODULES)
    drawn = set()
    for rank in range(2):
        stream = f"{rank}.out"
        words, expected = warm.text(stream).split("\n"), plain.text(stream).split("\n")
        assert words[0].split()[0] == "True"
        assert expected[0].split()[0] == "False"
        assert words[0].split()[1:] == expected[0].split()[1:]
        assert words[0].split()[1:3] == ["3.0", "24.0"]
        drawn.add(words[1])
    assert len(drawn) == 2, "each rank has random numbers of its own until it seeds them"
    assert warm.text("0.err") == plain.text("0.err")


def test_a_rank_that_torch_ends_with_an_exception_shows_it(node: Node, tmp_path: Path, torch_python: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(2) @ torch.ones(3)\n")
    ends = []
    for run, modules in (("plain", []), ("warm", ["torch"])):
        words = [str(torch_python), "-u", "train.py"]
        controller = node.prepared(task(tmp_path, words, run=run, python=str(torch_python), preload=modules))
        if modules:
            assert controller.until(protocol.Preloaded).reason == ""
        controller.send(protocol.Follow({}, None), protocol.Release(0.0))
        while controller.receive(300.0) is not None:
            pass
        ends.append((controller.ended(0).exit_code, controller.ended(0).error, controller.text("0.err")))
    assert ends[0] == ends[1]
    assert "RuntimeError" in ends[0][1]
