"""Facts of a log that decide between the causes of a text, and ends in which nothing failed."""

import pytest

from tests.features.explain.judgement.verdicts import first_cause, verdict_on

SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x5 and 4x4)"
NO_ROUTE = "The client socket has failed to connect to {} (errno: 101 - Network is unreachable).\n"
FULL_MESH = "[rank1]: RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error\n"
FALLBACK = (
    "(Worker pid=7, ip=10.4.0.8) [rank1]:[W ProcessGroupGloo.cpp:721] Warning: Unable to resolve hostname to a (local)"
    " address. Using the loopback address as fallback.\n"
)


def raised(rank: int, *errors: str) -> str:
    """Return a chain of exceptions of a rank, as torchrun prints it."""
    trace = 'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\n    fit()\n'
    chain = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
    text = chain.join(f"{trace}{error}" for error in errors)
    return "".join(f"[rank{rank}]: {line}\n" if line else "\n" for line in text.split("\n"))


UNREACHABLE = (
    NO_ROUTE.format("[9990:0:b0ca::]:19")
    + "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of"
    + f" (10.2.7.14, 29500). {NO_ROUTE.format('188.85.0.0:189')}"
)
CRASH = """\
Fatal Python error: Segmentation fault

Thread 0x7f (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Current thread 0x7e (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/srv/pipe.py", line 6 in dec
"""
ABSENT = "OSError: libwarp.so.2: cannot open shared object file: No such file or directory"
DECIDED = [
    (
        raised(1, "AttributeError: 'DistributedDataParallel' object has no attribute 'generate'"),
        "program-error: rank 1: The program asks the wrapper",
    ),
    (raised(1, SHAPES), "program-error or framework-config or data-damaged: rank 1: The shapes"),
    (raised(0, "RuntimeError: shape '[2, 16]' is invalid for input of size 768"), "program-error: rank 0: Runtime"),
    (
        raised(0, "datasets.table.CastError: Couldn't cast", "datasets.exceptions.DatasetGenerationError: x"),
        "data-damaged: rank 0: The files of a dataset",
    ),
    (raised(1, ABSENT), "library-mismatch: rank 1: A native library"),
    (FALLBACK + FULL_MESH, "hosts-loopback: gloo could not connect all ranks: a rank announced its loopback"),
    (FULL_MESH, "network-interface or hosts-loopback or firewall-port: gloo could not connect"),
    (UNREACHABLE, "coordinator-unreachable: this node has no route to 10.2.7.14"),
    (CRASH, "native-crash: a process crashed in string_at (/srv/pipe.py:6)"),
]


@pytest.mark.parametrize(("log", "expected"), DECIDED)
def test_a_fact_of_the_log_decides_between_the_causes_of_a_text(log: str, expected: str) -> None:
    first = first_cause(log)
    named = f"{' or '.join((first.cause.id, *(each.id for each in first.also)))}: {first.text}"
    assert named.startswith(expected)


RETRIED = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error.\n"
    "(raylet) Task f failed. There are 3 retries remaining, so the task will be retried. Error:\nsum 55\n"
)
AGAIN = "[n1:03] 1 more process has sent help message help-mpi-btl-tcp.txt / invalid if_inexclude\n"


@pytest.mark.parametrize(("log", "failed"), [(f"{RETRIED}exit=0\n", False), (RETRIED, True), (AGAIN, False)])
def test_a_task_that_a_launcher_starts_again_and_a_count_of_messages_are_no_failure_of_a_run(
    log: str, *, failed: bool
) -> None:
    assert verdict_on(f"step 1\n{log}").failed == failed


@pytest.mark.parametrize(
    ("module", "script", "named"),
    [
        ("orbit", "/srv/train.py", ["import-path"]),
        ("utils.plan", "/srv/train.py", ["import-path"]),
        ("orbit.plans.fast", "/srv/train.py", ["package-mismatch"]),
        ("orbit.plans.fast", "/srv/orbit/tools/train.py", ["package-mismatch", "import-path"]),
        ("orbit.cli", "/srv/env/bin/orbit", ["import-path"]),
        ("orbit._C._spin'; 'orbit._C' is not a package", "/srv/train.py", ["backend-missing"]),
        ("horovod.torch.mpi_lib_v2", "/srv/train.py", ["backend-missing"]),
        ("orbit.plans'; 'orbit' is not a package", "/srv/train.py", ["import-path"]),
    ],
)
def test_a_module_of_a_package_that_is_there_is_none_to_install(module: str, script: str, named: list[str]) -> None:
    end = "" if "'" in module else "'"
    first = first_cause(
        f'Traceback (most recent call last):\n  File "{script}", line 2, in <module>\n    import x\n'
        f"ModuleNotFoundError: No module named '{module}{end}\n"
    )
    assert [first.cause.id, *(each.id for each in first.also)] == named


@pytest.mark.parametrize(
    "text",
    ["train_batch_size is not equal to a * b: 2 != 1 * 1", "orbit.BackendFailed: plan 7", "kubectl: unknown flag: --a"],
)
def test_a_contradiction_is_a_failure_without_the_word_error(text: str) -> None:
    assert verdict_on(f"{text}\n").failed


IN_A_LIBRARY = 'File "/srv/env/lib/python3.11/site-packages/orbit/plan.py", line 7, in read\n    x = y\n'


@pytest.mark.parametrize(
    ("log", "named"),
    [
        (IN_A_LIBRARY, "unexplained"),
        (f"{IN_A_LIBRARY}OrbitError: plan 7\n", "unexplained"),
        (f'{IN_A_LIBRARY}  File "/srv/t.py", line 9, in main\n    x = y\nOrbitError: plan 7\n', "program-error"),
    ],
)
def test_a_traceback_of_which_the_beginning_is_cut_off_is_a_failure(log: str, named: str) -> None:
    first = verdict_on(log).first
    assert first is not None
    assert first.cause.id == named


def test_the_heading_of_a_column_is_no_error() -> None:
    assert not verdict_on("No module named 'apex', so torch does it\n").failed
    assert not verdict_on("  size   count   error\n     8       2   2e-07\n").failed
    assert verdict_on("pod/train-0   0/1   Error   0   5m\n").failed


def test_what_functions_of_nccl_return_is_a_failure_without_its_cause() -> None:
    returned = "n1:7:9 [2] NCCL INFO init.cc:904 -> 3\nn1:7:9 [2] NCCL INFO group.cc:72 -> 3 [Async thread]\n"
    assert verdict_on(returned).abstains
    graph = first_cause(f"n1:7:9 [2] NCCL INFO NCCL_GRAPH_FILE set by environment to /opt/a.xml\n{returned}")
    assert graph.cause.id == "env-nccl"


def test_a_program_that_no_module_is_found_for_says_so_without_a_traceback() -> None:
    first = first_cause("/usr/bin/python3: No module named orbit\n")
    assert first.cause.id == "import-path"
    part = first_cause("AttributeError: module 'importlib' has no attribute 'util'\n")
    assert part.cause.id == "program-error"


UNREACHED = "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This\nshould not happen.\n\n"


@pytest.mark.parametrize(
    ("log", "named"),
    [
        ("FAILED_PRECONDITION: orbit is registered already\n", ""),
        ('{"level":"info","ts":1.5,"msg":"Failed to apply plan 7 with error: no orbit"}\n', ""),
        ("Warning Unhealthy 2m (x4 over 5d) kubelet Startup probe failed: No devices were found\n", "gpu-missing"),
        ("$ ./plan\n$ echo $?\n213\n", "unexplained"),
        ("$ on-all-hosts -- pkill -f 'python'\n10:15 n1 Terminated\n10:15 n2 Terminated\n", "stopped-from-outside"),
        ("    self = reduction.pickle.load(from_parent)MemoryError\n", "host-oom"),
        (f"{UNREACHED}  Message:    connect() to 10.7.0.188:1024 failed\n", "network-interface"),
    ],
)
def test_a_failure_that_no_level_and_no_exception_announces_is_one(log: str, named: str) -> None:
    verdict = verdict_on(log)
    assert verdict.failed
    assert (verdict.first.cause.id if verdict.first else "") == named


def test_what_a_session_killed_before_is_not_the_cause_of_its_next_failure() -> None:
    killed = "$ pkill -9 python\nKilled   python train.py\n$ python train.py\n"
    assert first_cause(f"{killed}ValueError: Orbit only supports Hopper GPUs\n").cause.id == "gpu-architecture"
    assert verdict_on(f"{killed}OrbitError: plan 7\n").abstains
    cleaned = verdict_on("$ pkill -f python\n$ python train.py\nstep 1\nKilled   python train.py\n")
    assert cleaned.first is None or cleaned.first.signature != "own-command-kills"


@pytest.mark.parametrize(
    "log",
    [
        "UNAVAILABLE: 0, NOT_FOUND: 0, INTERNAL: 3\n",
        '{"level":"info","msg":"plan 7 is ready","errors":"none"}\n',
        "$ ./plan\n$ echo $?\n0\n",
        "$ pkill -f python\n$ ./plan\nready\n",
        "$ ./plan\n$ echo $?\n2\n$ ./plan --again\nstep 1 loss 2\nstep 2 loss 1\n",
    ],
)
def test_words_of_status_in_lines_of_programs_that_work_are_no_failure(log: str) -> None:
    assert not verdict_on(log).failed
