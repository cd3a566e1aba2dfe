"""Views of ranks: what a rank was doing, as its agent reports it on request and before it stops the rank."""

import os
import signal
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.shared import processes
from tests.agent.controller import Controller, Node, task
from tests.waiting import wait_until

PYTHON = "/usr/bin/python3"
LONG_S = 10.0
"""Time for an answer on a busy machine; a rank that answers is not waited for any longer than it takes."""


def program(tmp_path: Path, source: str, name: str = "train.py") -> list[str]:
    """Return the words that run `source` as a script."""
    script = tmp_path / name
    script.write_text(source)
    return [PYTHON, str(script)]


def views(
    controller: Controller, serial: int = 1, *, within_s: float = LONG_S, call_sites: bool = False
) -> dict[int, protocol.RankView]:
    """Ask for the views of all ranks and return them by rank."""
    controller.send(protocol.Examine(serial, call_sites=call_sites, within_s=within_s))
    while controller.until(protocol.Examined).serial != serial:
        pass
    return {view.rank: view for view in controller.all(protocol.RankView) if view.serial == serial}


def stack(view: protocol.RankView, number: int = 0) -> list[str]:
    """Return the functions of a thread, innermost first; [] in a view without it. The main thread is the first one."""
    return [each.function for thread in view.threads[number : number + 1] for each in thread.frames]


def test_a_python_rank_shows_the_stacks_of_its_threads_by_name(node: Node, tmp_path: Path) -> None:
    source = """
import threading, time
def load(): time.sleep(600)
def train():
    print("up", flush=True)
    time.sleep(600)
threading.Thread(target=load, name="loader", daemon=True).start()
train()
"""
    controller = node.up(task(tmp_path, program(tmp_path, source)))
    rank = controller.pid(0)
    wait_until(lambda: processes.read(rank).state == "S", "the sleep of the main thread")
    view = views(controller)[0]
    assert (view.source, view.note, view.state) == ("helper", "", "S")
    assert view.threads[0].is_main
    assert stack(view) == ["train", "<module>"]
    assert view.threads[0].frames[0].path == str(tmp_path / "train.py")
    assert {thread.name for thread in view.threads} == {"MainThread", "loader"}


def test_a_rank_that_is_no_python_program_is_described_by_the_kernel(node: Node, tmp_path: Path) -> None:
    controller = node.up(task(tmp_path, "echo up; exec sleep 600"))

    def asleep() -> bool:
        view = views(controller, len(controller.all(protocol.Examined)) + 1)[0]
        return (view.source, view.note, view.threads, view.state, view.syscall) == (
            "", "no stacks: not a Python program", (), "S", "clock_nanosleep"
        )  # fmt: skip

    wait_until(asleep, "a view of sleep in its system call")


UP = 'print("up", flush=True)\n'


@pytest.mark.parametrize(
    ("source", "state", "functions"),
    [
        ("def train():\n    while True: pass\n" + UP + "train()", "R", ["train", "<module>"]),
        ("import threading\ndef train(): threading.Lock().acquire() and lock.acquire()\nlock = threading.Lock()\n"
         "lock.acquire()\n" + UP + "train()", "S", ["train", "<module>"]),
        ("import asyncio\nasync def main():\n    " + UP + "    await asyncio.Event().wait()\nasyncio.run(main())", "S",
         None),
    ],
    ids=["loops in Python", "blocked in C", "waits in asyncio"],
)  # fmt: skip
def test_a_rank_answers_whatever_its_main_thread_does(
    node: Node, tmp_path: Path, source: str, state: str, functions: list[str] | None
) -> None:
    controller = node.up(task(tmp_path, program(tmp_path, source)))

    def settled() -> bool:
        view = views(controller, len(controller.all(protocol.Examined)) + 1)[0]
        assert (view.source, view.note) == ("helper", "")
        return view.state == state and (functions is None or stack(view) == functions)

    wait_until(settled, f"a view in state {state}")


def test_a_rank_that_is_stopped_is_not_waited_for(node: Node, tmp_path: Path) -> None:
    controller = node.up(task(tmp_path, program(tmp_path, UP + "import time; time.sleep(600)")))
    os.kill(controller.pid(0), signal.SIGSTOP)
    wait_until(lambda: "T (stopped)" in Path(f"/proc/{controller.pid(0)}/status").read_text(), "the stop")
    view = views(controller, within_s=10.0)[0]
    assert (view.state, view.source) == ("T", "")
    assert view.note == "no stacks: the rank is stopped (SIGSTOP, or a debugger)"


NOTICES_NOTHING = """
import multiprocessing, os, signal, sys, threading, time, warnings
warnings.simplefilter("error")
caught = []

def threads(): return len(os.listdir("/proc/self/task"))

def in_worker(queue): queue.put((threads(), threading.active_count()))

if __name__ == "__main__":
    assert sys.argv[1:] == ["--x"], sys.argv
    assert not [entry for entry in sys.path if "in_rank" in entry], sys.path
    assert not [name for name in sys.modules if "in_rank" in name or "questions" in name], sys.modules
    assert threading.enumerate() == [threading.main_thread()]
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    assert caught == [signal.SIGUSR1]

    for _ in range(20):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, b"%d" % threads())
            os._exit(0)
        os.wait()
        assert os.read(reading, 9) == b"1"
        os.close(reading), os.close(writing)

    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        worker = context.Process(target=in_worker, args=(queue,))
        worker.start()
        assert queue.get() == (1, 1), method
        worker.join()
    print("up", flush=True)
    time.sleep(600)
"""


def test_a_script_that_forks_spawns_and_takes_signals_notices_nothing(node: Node, tmp_path: Path) -> None:
    controller = node.up(task(tmp_path, [*program(tmp_path, NOTICES_NOTHING), "--x"]))
    view = views(controller)[0]
    assert (view.source, view.pid, stack(view)) == ("helper", controller.pid(0), ["<module>"])
    assert controller.text("0.err") == ""


def test_the_sitecustomize_of_the_user_runs_as_before(node: Node, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.of_the_user = __file__\n")
    source = "import sys, sitecustomize, time\nprint(sys.of_the_user == sitecustomize.__file__, flush=True)\n" + UP
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(own)}
    controller = node.up(task(tmp_path, program(tmp_path, source + "time.sleep(600)"), env=env))
    assert controller.text("0.out") == "True\nup\n"
    assert views(controller)[0].source == "helper"


LAUNCHER = "import subprocess, sys\nsubprocess.call([sys.executable, 'train.py'])\n"


def test_a_launcher_in_a_rank_leaves_the_answers_to_what_it_starts(node: Node, tmp_path: Path) -> None:
    program(tmp_path, f"import time\ndef train(): time.sleep(600)\n{UP}train()")
    controller = node.up(task(tmp_path, program(tmp_path, LAUNCHER, "torchrun")))
    view = views(controller)[0]
    assert (view.source, stack(view)) == ("helper", ["train", "<module>"])
    assert view.pid != controller.pid(0)


TAKES_SOCKET = """
import os, socket
path = os.environ["PYLAUNCH_RANK_SOCKET"]
os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
os.chdir(os.path.dirname(path))
listener.bind(os.path.basename(path))
listener.listen()
"""
"""Beginning of a rank that takes the place of its helper thread."""

LIES = (
    TAKES_SOCKET
    + """\
print("up", flush=True)
while True:
    connection, _ = listener.accept()
    try:
        {answer}
    except OSError:
        pass
    connection.close()
"""
)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ("connection.sendall(b'[' * 100000 + b'\\n')", "its answer cannot be read"),
        ("connection.sendall(b'x' * (1 << 20))", "its answer is too long"),
        ("connection.close()", "it closed the connection"),
        ("connection.recv(1 << 20); connection.recv(1)", "no answer in 2 s"),
    ],
)
def test_a_rank_that_lies_in_its_socket_is_described_by_the_kernel(
    node: Node, tmp_path: Path, answer: str, note: str
) -> None:
    source = "import faulthandler\nfaulthandler.unregister(57)\n" + LIES.format(answer=answer)
    controller = node.up(task(tmp_path, program(tmp_path, source)))
    view = views(controller, within_s=2.0 if note == "no answer in 2 s" else LONG_S)[0]
    assert (view.source, view.threads, view.collectives) == ("", (), ())
    assert note in view.note
    assert view.state in ("R", "S", "D")


def test_a_fifo_in_place_of_the_socket_holds_up_nobody(node: Node, tmp_path: Path) -> None:
    source = "import os, time\npath = os.environ['PYLAUNCH_RANK_SOCKET']\nos.unlink(path)\nos.mkfifo(path)\n" + UP
    other = "import time\ndef train():\n    " + UP + "    time.sleep(600)\ntrain()"
    controller = node.up(
        task(tmp_path, program(tmp_path, source + "time.sleep(600)"), program(tmp_path, other, "other.py")), count=2
    )
    found = views(controller)
    assert (found[0].source, found[1].source) == ("", "helper")


def test_the_other_ranks_are_examined_before_a_failure_stops_them(node: Node, tmp_path: Path) -> None:
    waits = "import os, signal, sys, time\n"
    waits += "signal.signal(signal.SIGTERM, lambda *_: sys.exit('terminated'))\n"
    waits += "def train():\n    " + UP + "    time.sleep(600)\ntrain()"
    fails = "import os, time\nwhile not os.path.exists('fail'): time.sleep(0.01)\nraise SystemExit(3)"
    controller = node.up(
        task(tmp_path, program(tmp_path, waits), program(tmp_path, fails, "fails.py"), "echo up; exec sleep 600"),
        count=2,
    )
    assert views(controller)[0].source == "helper"
    (tmp_path / "fail").touch()
    controller.until(protocol.Finished)
    taken = {view.rank: view for view in controller.all(protocol.RankView) if view.serial == protocol.UNASKED}
    assert taken.keys() == {0, 2}
    # On a machine that is busy for half a second, the rank has no time to answer.
    assert stack(taken[0]) == ["train", "<module>"] if taken[0].source else "no answer in 0.5 s" in taken[0].note
    assert taken[2].note == "no stacks: not a Python program"
    order = [
        type(each).__name__ for each in controller.received if isinstance(each, protocol.RankView | protocol.RankEnd)
    ]
    assert order[-4:] == ["RankView", "RankView", "RankEnd", "RankEnd"]

    again = node.attach()
    again.send(protocol.Follow({}, []))
    again.until(protocol.Finished)
    assert {view.rank for view in again.all(protocol.RankView)} == {0, 2}
