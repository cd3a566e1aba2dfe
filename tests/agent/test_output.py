"""Logs reach the controller whole, once, and only as fast as it reads them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from pylaunch import protocol
from tests.agent.controller import Node, gone, task
from tests.waiting import wait_until

MEBIBYTE = 1 << 20


def resident(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_a_flood_is_read_at_the_pace_of_the_reader_and_arrives_whole(node: Node, tmp_path: Path) -> None:
    size = 60 * MEBIBYTE
    controller = node.started(task(tmp_path, f"yes 0123456789abcde | head -c {size}; echo done > {tmp_path}/done"))
    controller.pid(0)
    supervisor = node.supervisor(controller)
    before = resident(supervisor)
    wait_until((tmp_path / "done").exists, "the end of the flood")
    assert resident(supervisor) - before < 16 * MEBIBYTE
    offset = 0
    for message in controller.rest():
        if isinstance(message, protocol.Output):
            assert message.offset - offset == len(message.text)
            offset = message.offset
    assert offset == size
    assert controller.all(protocol.Finished)


def test_a_flood_stays_within_its_limit_and_followers_get_the_newest(node: Node, tmp_path: Path) -> None:
    limit, size = 8 * MEBIBYTE, 60 * MEBIBYTE
    flag = tmp_path / "go"
    os.mkfifo(flag)
    script = f"echo begin; yes 0123456789abcde | head -c {size}; echo end; read x < {flag}"
    controller = node.prepared(task(tmp_path, script, log_limit=limit))
    controller.send(protocol.Follow({}, None, lag=MEBIBYTE), protocol.Release(0.0))
    controller.pid(0)
    log = node.root / "runs/r1/logs/0.out"
    wait_until(lambda: log.stat().st_size >= size, "the end of the flood")
    wait_until(lambda: log.stat().st_blocks * 512 <= limit, "what is too much is given back")
    flag.write_text("now\n")
    controller.until(protocol.Finished)
    text, skipped = controller.text("0.out"), controller.all(protocol.Skipped)
    with log.open("rb") as kept:
        assert kept.readline() == b"begin\n"
    assert text.endswith("\nend\n")
    assert sum(each.offset - each.start for each in skipped) + len(text) == log.stat().st_size
    assert {each.path for each in skipped} == {str(log)}


def test_the_end_of_a_rank_carries_its_last_lines(node: Node, tmp_path: Path) -> None:
    controller = node.prepared(task(tmp_path, "seq 100 >&2; echo not this; exit 1", "seq 30; exit 0"))
    controller.send(protocol.Follow({}, []), protocol.Release(0.0))
    controller.until(protocol.Finished)
    assert controller.ended(0).last_lines == tuple(str(number) for number in range(81, 101))
    assert controller.all(protocol.Output) == []


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_disk_that_fills_up_during_the_run_costs_the_rank_and_not_the_agent(node: Node, tmp_path: Path) -> None:
    node.ask("runs")
    small = node.root / "runs"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=68m,mode=0700", "small", small], check=True)
    try:
        controller = node.started(task(tmp_path, "exec yes", ["sleep", "60"]))
        finished = controller.until(protocol.Finished)
        assert finished.leftovers == []
        assert controller.ended(0).exit_code == 1
        assert controller.ended(1).stopped
        controller.disconnect()
        gone(node.supervisor(controller))
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
