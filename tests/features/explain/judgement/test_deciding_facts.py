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


BARRIER = (
    "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
    "store_based_barrier_key:1 (world_size={}, worker_count={}, timeout={})"
)
REFUSED = "RuntimeError: [/gloo/transport/tcp/pair.cc:799] connect [{}]:41234: Connection refused"
UNREACHABLE = (
    NO_ROUTE.format("[9990:0:b0ca::]:19")
    + "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of"
    + f" (10.2.7.14, 29500). {NO_ROUTE.format('188.85.0.0:189')}"
)
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
    (
        FALLBACK + FULL_MESH,
        "hosts-loopback: gloo announces the loopback address",
    ),
    (FULL_MESH, "network-interface or hosts-loopback or firewall-port: gloo could not connect"),
    (raised(0, BARRIER.format(8, 1, "2:00:00")), "rank-missing: The barrier at the start counted"),
    (raised(0, BARRIER.format(8, 4, "10:00:00")), "rank-missing: The barrier at the start counted"),
    (raised(0, BARRIER.format(16, 32, "0:30:00")), "duplicate-launch: 32 processes joined a group of 16"),
    (raised(0, BARRIER.format(8, 9, "0:30:00")), "duplicate-launch: 9 processes joined a group of 8"),
    (raised(0, REFUSED.format("::1")), "hosts-loopback: gloo could not connect"),
    (raised(0, REFUSED.format("fd00::1")), "peer-lost: A peer of gloo refused"),
    (raised(0, REFUSED.format("fe80::1")), "network-interface: gloo could not connect"),
    (UNREACHABLE, "coordinator-unreachable: This node has no route to the coordinator"),
]


@pytest.mark.parametrize(("log", "expected"), DECIDED)
def test_a_fact_of_the_log_decides_between_the_causes_of_a_text(log: str, expected: str) -> None:
    first = first_cause(log)
    named = f"{' or '.join((first.cause.id, *(each.id for each in first.also)))}: {first.text}"
    assert named.startswith(expected)


@pytest.mark.parametrize(
    ("module", "script", "named"),
    [
        ("orbit", "/srv/train.py", ["import-path"]),
        ("utils.plan", "/srv/train.py", ["import-path"]),
        ("orbit._C._spin'; 'orbit._C' is not a package", "/srv/train.py", ["backend-missing"]),
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
