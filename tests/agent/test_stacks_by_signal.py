"""Stacks that faulthandler writes for a rank whose helper thread does not answer."""

import os
from pathlib import Path

from pylaunch import protocol
from tests.agent.controller import Node, task
from tests.agent.test_examination import LONG_S, TAKES_SOCKET, UP, program, stack, views
from tests.waiting import wait_until

WRITES_SLOWLY = (
    TAKES_SOCKET
    + """\
import ctypes, time

def write(_):
    with open("0.stacks", "a") as stacks:
        stacks.write("Thread 0x000000000000000a (most recent call first):\\n")
        stacks.write('  File "loader.py", line 3 in load\\n' * 5000)
        stacks.write('\\nThread 0x000000000000000c (most recent call first):\\n  File "io.py", line 5 in save\\n')
        stacks.flush()
        open({gate!r}).readline()
        stacks.write("\\nCurrent thread 0x000000000000000b (most recent call first):\\n")
        stacks.write('  File "train.py", line 7 in train\\n  File "train.py", line 9 in <module>\\n')

handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(write)
ctypes.CDLL(None).signal(57, handler)
print("up", flush=True)
while True:
    time.sleep(600)
"""
)
"""A rank whose handler in C, in the place of faulthandler's, waits before it writes the main thread."""


def test_stacks_are_taken_once_the_main_thread_which_is_written_last_is_among_them(node: Node, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    controller = node.up(task(tmp_path, program(tmp_path, WRITES_SLOWLY.format(gate=str(gate)))))
    controller.send(protocol.Examine(1, within_s=LONG_S))
    with gate.open("w") as opening:  # The rank has opened it: the other threads are written.
        for serial in range(9):  # The agent looks at the file before it answers each of these.
            controller.send(protocol.Ping(serial))
            controller.until(protocol.Pong)
        assert not controller.all(protocol.RankView)
        opening.write("on\n")
    controller.until(protocol.Examined)
    (view,) = controller.all(protocol.RankView)
    assert (view.source, [thread.is_main for thread in view.threads]) == ("signal", [True, False])
    assert stack(view) == ["train", "<module>"]
    assert stack(view, 1) == ["save"]


def test_a_rank_whose_c_code_holds_the_gil_answers_however_often_it_is_asked(node: Node, tmp_path: Path) -> None:
    """Its helper thread accepts none of the connections, and the kernel keeps few."""
    source = "import itertools\ndef train(): sum(itertools.repeat(0))\n" + UP + "train()"
    controller = node.up(task(tmp_path, program(tmp_path, source)))

    def by_signal(within_s: float) -> list[protocol.RankView]:
        view = views(controller, len(controller.all(protocol.Examined)) + 1, within_s=within_s)[0]
        return [view] if (view.source, stack(view)) == ("signal", ["train", "<module>"]) else []

    (view,) = wait_until(lambda: by_signal(2.0), "stacks of train that faulthandler wrote")
    assert [thread.is_main for thread in view.threads] == [True]
    assert "C code holds the GIL" in view.note
    for _ in range(20):
        by_signal(0.01)
    wait_until(lambda: by_signal(2.0), "stacks of train that faulthandler wrote again")
