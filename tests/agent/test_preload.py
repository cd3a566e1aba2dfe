"""Ranks that a template forks: like ranks of an ordinary start, or an ordinary start with the reason."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.agent.run.ranks.preload import UNFINISHED
from pylaunch.agent.shared import processes
from tests.agent.controller import Controller, Node, gone, is_alive, task
from tests.waiting import wait_until

PYTHON = os.path.realpath("/usr/bin/python3")
DESCRIBED = """
import ctypes, gc, json, locale, os, resource, signal, stat, sys, threading, warnings
'''Words of the script.'''
mask = os.umask(0); os.umask(mask)
main = sys.modules["__main__"]
files = {number: os.readlink("/proc/self/fd/" + number) for number in sorted(os.listdir("/proc/self/fd"))
         if os.path.exists("/proc/self/fd/" + number)}
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death), 0, 0, 0)
seen = {
    "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", 0), "path": sys.path, "flags": str(sys.flags),
    "main": {name: repr(value) for name, value in vars(main).items() if name.startswith("__") and name != "__loader__"},
    "loader": type(main.__loader__).__name__, "cwd": os.getcwd(), "umask": mask, "leads": os.getsid(0) == os.getpid(),
    "group": os.getpgid(0) == os.getpid(), "environ": dict(sorted(os.environ.items())),
    "class": str(type(os.environ)), "getenv": os.getenv("PYLAUNCH_RANK"), "death": death.value,
    "C": [ctypes.CDLL(None).getenv(name) != 0 for name in (b"PYLAUNCH_RANK", b"PYLAUNCH_TEMPLATE", b"RANK")],
    "signals": {int(n): str(signal.getsignal(n)) for n in signal.valid_signals()}, "files": files,
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "threads": [t.name for t in threading.enumerate()],
    "main thread": threading.current_thread() is threading.main_thread(), "tasks": len(os.listdir("/proc/self/task")),
    "gc": [gc.get_threshold(), gc.isenabled()], "locale": locale.setlocale(locale.LC_ALL),
    "streams": [[s.name, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.fileno()]
                for s in (sys.stdin, sys.stdout, sys.stderr)],
    "limits": [resource.getrlimit(n) for n in range(16)], "affinity": sorted(os.sched_getaffinity(0)),
    "hook": sys.excepthook is sys.__excepthook__, "filters": [str(each) for each in warnings.filters],
    "customised": getattr(sys.modules.get("sitecustomize"), "__file__", None), "executable": sys.executable,
    "command": open("/proc/self/cmdline").read(), "name": open("/proc/self/comm").read(), "parent": os.getppid(),
    "doc": __doc__, "mode": stat.S_IMODE(os.fstat(1).st_mode),
}
print(json.dumps(seen, indent=1))
print("error", file=sys.stderr)
"""


def run_of(
    node: Node, tmp_path: Path, words: list[str], *modules: str, run: str, ranks: int = 1, **changes: object
) -> Controller:
    """Return a controller whose run of `ranks` ranks is ready, with its preload ended."""
    asked = task(tmp_path, *[words] * ranks, run=run, preload=list(modules), **changes)
    for rank in asked.ranks:
        rank.env.update(RANK=str(rank.rank), MASTER_PORT="@port@", WORLD_SIZE=str(ranks))
    controller = node.prepared(asked)
    if modules:
        controller.until(protocol.Preloaded)
    return controller


def to_the_end(controller: Controller) -> None:
    controller.send(protocol.Follow({}, None), protocol.Release(0.0, rendezvous_port=23456))
    list(controller.rest())


def reason(controller: Controller) -> str:
    """Return the reason why the ranks of `controller` are not preloaded; "" if they are."""
    (preloaded,) = controller.all(protocol.Preloaded)
    return preloaded.reason


def both_ways(
    node: Node, tmp_path: Path, words: list[str], *modules: str, ranks: int = 1, **changes: object
) -> list[Controller]:
    """Return the controllers of two runs of `words` that are over: an ordinary one, and one with a preload."""
    found = []
    for run, loaded in (("plain", ()), ("warmd", modules or ("json", "decimal:Decimal"))):
        controller = run_of(node, tmp_path, words, *loaded, run=run, ranks=ranks, **changes)
        assert not loaded or reason(controller) == ""
        to_the_end(controller)
        found.append(controller)
    return found


def comparable(text: str, controller: Controller) -> str:
    """Return `text` without what differs between any two runs."""
    supervisor = next(hello.pid for hello in controller.all(protocol.Hello))
    text = re.sub(rf'"parent": {supervisor}\b', '"parent": "supervisor"', text)
    text = re.sub(r"(socket|pipe):\[\d+\]| at 0x[0-9a-f]+", r"\1", text)
    return text.replace("/warmd/", "/plain/").replace('"warmd"', '"plain"')


@pytest.mark.parametrize("form", ["script", "module", "other directory"])
def test_a_forked_rank_sees_of_itself_what_an_ordinary_one_does(node: Node, tmp_path: Path, form: str) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "train.py").write_text(DESCRIBED)
    (tmp_path / "code" / "train.py").write_text(DESCRIBED)
    named = {"script": ["train.py"], "module": ["-m", "train"], "other directory": [str(tmp_path / "code/train.py")]}
    words = [PYTHON, "-u", *named[form], "--epochs", "3"]
    plain, warm = both_ways(node, tmp_path, words)
    assert '"parent"' in plain.text("0.out")
    assert comparable(warm.text("0.out"), warm) == comparable(plain.text("0.out"), plain)
    assert warm.text("0.err") == plain.text("0.err") == "error\n"
    assert (warm.ended(0).exit_code, warm.ended(0).signal) == (0, None)


ENDS = {
    "code": "import sys; sys.exit(3)",
    "text": "import sys; sys.exit('no data')",
    "exception": "def train():\n    raise ValueError('loss is NaN')\ntrain()",
    "syntax": "def train(:",
    "interrupt": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
    "raised interrupt": "raise KeyboardInterrupt",
    "SIGTERM": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "abort": "import os; os.abort()",
}
ENDS_WELL = {
    "success": "",
    "atexit": "import atexit\nfor n in range(3): atexit.register(print, n)\nprint('main')",
    "broken pipe": "import os, signal; print(signal.getsignal(signal.SIGPIPE))",
    "thread": "import threading\nthreading.Thread(target=lambda: print('ran')).start()",
    "children": """
import multiprocessing, os
def work(queue): queue.put((os.environ["RANK"], multiprocessing.current_process().name, __name__))
if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        child = context.Process(target=work, args=(queue,), name="child")
        child.start()
        print(method, queue.get())
        child.join()
        print(child.exitcode)
""",
    "own fork": "import os, sys\nif os.fork() == 0: print('child'); os._exit(0)\nos.wait(); print('parent')",
    "subprocess": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import os; print(len(os.environ))'])",
    "stdin": "import sys; print(repr(sys.stdin.read()))",
    "exec": "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])",
}


def assert_same_end(plain: Controller, warm: Controller, rank: int, name: str) -> None:
    for stream in (f"{rank}.out", f"{rank}.err"):
        assert warm.text(stream) == plain.text(stream), name
    end, expected = warm.ended(rank), plain.ended(rank)
    assert (end.exit_code, end.signal, end.error, end.last_lines) == (
        expected.exit_code, expected.signal, expected.error, expected.last_lines
    ), name  # fmt: skip
    assert warm.all(protocol.Finished)[0].leftovers == []


@pytest.mark.parametrize("how", ENDS)
def test_a_forked_rank_ends_as_an_ordinary_one(node: Node, tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text(ENDS[how])
    plain, warm = both_ways(node, tmp_path, [PYTHON, "-u", "train.py"])
    assert_same_end(plain, warm, 0, how)


def test_forked_ranks_that_end_well_do_so_as_ordinary_ones(node: Node, tmp_path: Path) -> None:
    for rank, source in enumerate(ENDS_WELL.values()):
        (tmp_path / f"{rank}.py").write_text(source)
    (tmp_path / "train.py").write_text("import os\nexec(open(os.environ['RANK'] + '.py').read())")
    plain, warm = both_ways(node, tmp_path, [PYTHON, "-u", "train.py"], ranks=len(ENDS_WELL))
    for rank, name in enumerate(ENDS_WELL):
        assert (plain.ended(rank).exit_code, plain.ended(rank).stopped) == (0, False), name
        assert_same_end(plain, warm, rank, name)


SETTINGS = """
import multiprocessing, os, sys, warnings
class Label:
    pass
def work(queue):
    queue.put((hash("label"), __debug__, sys.flags.dev_mode, sys.warnoptions, sys.argv))
if __name__ == "__main__":
    print(hash("label"), __debug__, sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode)
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(method, queue.get(), child.name)
        child.join()
    open("/proc/self/comm", "w").write("trainer")
    print(open("/proc/self/comm").read(), len(os.sched_getaffinity(0)))
    warnings.warn("careful", RuntimeWarning)
"""


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONHASHSEED": "7"},
        {"PYTHONOPTIMIZE": "2", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        {"PYTHONDEVMODE": "1", "PYTHONHASHSEED": "1", "PYTHONUTF8": "1"},
        {"PYTHONWARNINGS": "error::RuntimeWarning", "PYTHONHASHSEED": "2", "PYTHONFAULTHANDLER": "1"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_settings_of_the_interpreter_hold_in_a_forked_rank_and_in_its_children(
    node: Node, tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text(SETTINGS)
    words = [PYTHON, "-u", "train.py", "--lr", "3"]
    env = {"PATH": os.environ["PATH"], **variables}
    plain, warm = both_ways(node, tmp_path, words, env=env)
    assert "spawn" in plain.text("0.out")
    assert warm.text("0.out") == plain.text("0.out")
    assert warm.text("0.err") == plain.text("0.err")
    assert warm.ended(0).exit_code == plain.ended(0).exit_code == int("PYTHONWARNINGS" in variables)


def test_the_ranks_of_a_node_have_their_own_variables_and_random_numbers(node: Node, tmp_path: Path) -> None:
    source = "import os, random; print(os.environ['RANK'], os.environ['MASTER_PORT'], random.random())"
    (tmp_path / "train.py").write_text(source)
    controller = run_of(node, tmp_path, [PYTHON, "-u", "train.py"], "random", run="r1", ranks=3)
    to_the_end(controller)
    assert reason(controller) == ""
    lines = [controller.text(f"{rank}.out").split() for rank in range(3)]
    assert [line[:2] for line in lines] == [[str(rank), "23456"] for rank in range(3)]
    assert len({line[2] for line in lines}) == 3
    assert {started.rank for started in controller.all(protocol.RankStarted)} == {0, 1, 2}


def test_output_of_the_imports_is_in_the_log_of_every_rank(node: Node, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "loud.py").write_text("import sys; print('hello'); print('careful', file=sys.stderr)")
    (tmp_path / "train.py").write_text("import loud; print('ran')")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(library)}
    controller = run_of(node, tmp_path, [PYTHON, "-u", "train.py"], "loud", run="r1", ranks=2, env=env)
    to_the_end(controller)
    assert reason(controller) == ""
    for rank in range(2):
        assert (controller.text(f"{rank}.out"), controller.text(f"{rank}.err")) == ("hello\nran\n", "careful\n")


def test_ranks_do_not_share_the_position_of_a_file_that_an_import_reads(node: Node, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "table").write_text("".join(f"{number}\n" for number in range(1000)))
    (library / "data.py").write_text(f"held = open({str(library / 'table')!r}, buffering=1)\nheld.readline()")
    (tmp_path / "train.py").write_text(
        "import data, os; print(os.lseek(data.held.fileno(), 0, 1), len(data.held.read()))"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(library)}
    controller = run_of(node, tmp_path, [PYTHON, "-u", "train.py"], "data", run="r1", ranks=4, env=env)
    to_the_end(controller)
    assert reason(controller) == ""
    assert {controller.text(f"{rank}.out") for rank in range(4)} == {"3890 3888\n"}


IMPORTS = {
    "starts a thread": ("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
                        "odd started 1 threads"),
    "opens a file to write": ("held = open('/tmp/.preload', 'w')", "the import opened /tmp/.preload"),
    "opens a device": ("held = open('/dev/full')", "the import opened /dev/full"),
    "opens a socket": ("import socket\nheld = socket.socket()", "the import opened socket:["),
    "starts a process": ("import os\nif os.fork() == 0:\n    os._exit(0)", "the import started a process"),
    "changes directory": ("import os; os.chdir('/')", "the import changes the working directory or sys.path"),
    "changes sys.path": ("import sys; sys.path.insert(0, '/nowhere')", "the import changes the working directory"),
    "reads the rank": ("import os; rank = os.environ.get('RANK', '0')", "the import uses RANK, a variable of one rank"),
    "asks for the rank": ("import os; is_rank = 'RANK' in os.environ", "the import uses RANK, a variable of one rank"),
    "reads the port": ("import os; port = os.getenv('MASTER_PORT')", "the import uses MASTER_PORT"),
    "sets the rank": ("import os; os.environ['RANK'] = '7'", "the import uses RANK, a variable of one rank"),
    "fails": ("1 / 0", "import of odd failed: ZeroDivisionError: division by zero"),
    "is missing": (None, "import of odd failed: ModuleNotFoundError: No module named 'odd'"),
    "exits": ("import sys; sys.exit(0)", "import of odd failed: SystemExit: 0"),
    "exits hard": ("import os; os._exit(0)", "the template ended without an answer"),
    "aborts": ("import os; os.abort()", "the template ended without an answer"),
    "writes much": ("print('x' * 70000)", "imports wrote more than 64 KiB of output"),
}  # fmt: skip


def test_a_secret_is_masked_in_the_reason_before_that_is_cut(node: Node, tmp_path: Path) -> None:
    secret = "hunter2  hunter2"
    library = tmp_path / "library"
    library.mkdir()
    (library / "odd.py").write_text(f"raise ValueError({secret!r} + 'x' * 242 + {secret!r})")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(library)}
    controller = node.open("r1")
    asked = task(tmp_path, [PYTHON, "-u", "train.py"], run="r1", preload=["odd"], env=env)
    (tmp_path / "train.py").touch()
    controller.send(protocol.Prepare(asked, {"HF_TOKEN": secret}))
    controller.until(protocol.Preloaded)
    assert reason(controller).startswith("import of odd failed: ValueError: ****************xxx")
    assert reason(controller).endswith("xxx********")
    to_the_end(controller)


@pytest.mark.parametrize("what", IMPORTS)
def test_ranks_start_in_the_ordinary_way_after_an_import_that(node: Node, tmp_path: Path, what: str) -> None:
    source, expected = IMPORTS[what]
    library = tmp_path / "library"
    library.mkdir()
    if source is not None:
        (library / "odd.py").write_text(source)
    (tmp_path / "train.py").write_text("import os; print('ran', os.environ['RANK'], os.environ['MASTER_PORT'])")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(library)}
    controller = run_of(node, tmp_path, [PYTHON, "-u", "train.py"], "odd", run="r1", ranks=2, env=env)
    assert reason(controller).startswith(expected)
    to_the_end(controller)
    assert [controller.text(f"{rank}.out") for rank in range(2)] == ["ran 0 23456\n", "ran 1 23456\n"]
    assert controller.all(protocol.Finished)[0].leftovers == []


def wrapper(tmp_path: Path) -> str:
    """Return an interpreter that runs no sitecustomize, as a script."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {PYTHON} -I "$@"\n')
    path.chmod(0o755)
    return str(path)


def environment_with(tmp_path: Path, line: str) -> str:
    """Return the interpreter of an environment whose packages add `line` to the start of Python."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", "--symlinks", str(tmp_path / "env")], check=True)
    (packages,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (packages / "first.pth").write_text(line + "\n")
    return str(tmp_path / "env" / "bin" / "python")


def customised(tmp_path: Path) -> str:
    directory = tmp_path / "first"
    directory.mkdir()
    (directory / "sitecustomize.py").write_text("first = 1")
    return str(directory)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("wrapper", "is no interpreter in machine code: a wrapper may start another one"),
        ("isolated", "options of the interpreter other than -u and -m"),
        ("another sitecustomize first", "the interpreter does not run pylaunch's sitecustomize first"),
        ("sitecustomize of the user", "sitecustomize.py first"),
        ("coverage", "COVERAGE_PROCESS_START is set"),
        ("threads of one rank", "OMP_NUM_THREADS differs between ranks and is read when a process starts"),
        ("other words", "the command lines of the ranks differ"),
        ("own module", "takes the place of the module json"),
    ],
)
def test_no_script_runs_before_the_release_where_a_template_is_not_certain(
    node: Node, tmp_path: Path, what: str, expected: str
) -> None:
    (tmp_path / "train.py").write_text("import os; open(os.environ['RANK'] + '.ran', 'a').write('x')")
    python, env = PYTHON, {"PATH": os.environ["PATH"]}
    if what == "wrapper":
        python = wrapper(tmp_path)
    elif what == "another sitecustomize first":
        python = environment_with(tmp_path, f"import sys; sys.path.insert(0, {customised(tmp_path)!r})")
    elif what == "sitecustomize of the user":
        env["PYTHONPATH"] = customised(tmp_path)
    elif what == "coverage":
        env["COVERAGE_PROCESS_START"] = "x"
    elif what == "own module":
        (tmp_path / "json.py").write_text("")
    words = [python, "-I" if what == "isolated" else "-u", "train.py"]
    asked = task(tmp_path, words, [*words, "--x"] if what == "other words" else words, env=env, preload=["json"])
    for rank in asked.ranks:
        rank.env["RANK"] = str(rank.rank)
        if what == "threads of one rank":
            rank.env["OMP_NUM_THREADS"] = str(rank.rank + 1)
    controller = node.prepared(asked)
    assert expected in controller.until(protocol.Preloaded).reason
    assert not list(tmp_path.glob("*.ran"))
    to_the_end(controller)
    assert sorted(each.read_text() for each in tmp_path.glob("*.ran")) == ["x", "x"]


def members(tmp_path: Path) -> list[int]:
    """Return the processes whose command lines name the script below `tmp_path`."""
    words = str(tmp_path / "train.py")
    return [each.pid for each in processes.mine() if words in each.command and is_alive(each.pid)]


@pytest.mark.parametrize("how", ["disconnect", "kill", "stop"])
def test_no_script_runs_when_a_preloaded_node_is_not_released(node: Node, tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')")
    words = [PYTHON, "-u", str(tmp_path / "train.py")]
    controller = run_of(node, tmp_path, words, "json", run="r1", ranks=2)
    assert reason(controller) == ""
    # The agent has killed the template, which may still be ending.
    waiting = wait_until(lambda: found if len(found := members(tmp_path)) == 2 else [], "the ranks alone")
    if how == "disconnect":
        controller.disconnect()
    elif how == "kill":
        os.kill(node.supervisor(controller), signal.SIGKILL)
    else:
        controller.send(protocol.Stop(1.0, "enough", by_hand=True))
        assert controller.until(protocol.Finished).leftovers == []
    gone(*waiting)
    wait_until(lambda: not members(tmp_path), "the end of every process of the run")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("how", ["release", "disconnect", "kill"])
def test_imports_that_do_not_end_delay_nothing(node: Node, tmp_path: Path, how: str) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "slow.py").write_text("import time; open('importing', 'w').close(); time.sleep(600)")
    (tmp_path / "train.py").write_text("open('ran', 'a').write('x')")
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(library)}
    words = [PYTHON, "-u", str(tmp_path / "train.py")]
    controller = node.prepared(task(tmp_path, words, env=env, preload=["slow"]))
    wait_until((tmp_path / "importing").exists, "the import")
    if how == "release":
        to_the_end(controller)
        assert reason(controller) == UNFINISHED
        assert (tmp_path / "ran").read_text() == "x"
        assert controller.all(protocol.Finished)[0].leftovers == []
    elif how == "disconnect":
        controller.disconnect()
    else:
        os.kill(node.supervisor(controller), signal.SIGKILL)
    wait_until(lambda: not members(tmp_path), "the end of every process of the run")
    assert (tmp_path / "ran").exists() == (how == "release")


def test_a_forked_rank_answers_the_agent_and_is_stopped_like_any_other(node: Node, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import time\ndef train():\n    print('up', flush=True)\n    time.sleep(600)\ntrain()"
    )
    controller = run_of(node, tmp_path, [PYTHON, "-u", "train.py"], "json", run="r1", ranks=2)
    controller.send(protocol.Follow({}, None), protocol.Release(0.0))
    while sum(output.text.count("up\n") for output in controller.all(protocol.Output)) < 2:
        controller.until(protocol.Output)
    controller.send(protocol.Examine(1, within_s=10.0))
    controller.until(protocol.Examined)
    views = controller.all(protocol.RankView)
    assert [view.source for view in views] == ["helper", "helper"]
    assert {view.threads[0].frames[0].function for view in views} == {"train"}
    pids = [controller.pid(rank) for rank in range(2)]
    controller.send(protocol.Stop(10.0, "enough", by_hand=True))
    assert controller.until(protocol.Finished).leftovers == []
    assert {end.signal for end in controller.all(protocol.RankEnd)} == {signal.SIGTERM}
    gone(*pids)
