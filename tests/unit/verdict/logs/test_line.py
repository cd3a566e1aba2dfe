"""Prefixes of launchers, times and names of files."""

import pytest

from pylaunch.verdict.logs.line import LinePrefixes, Origin, learn_prefixes, origin_of_name, parse_time


@pytest.mark.parametrize(
    ("line", "origin", "text"),
    [
        ("[default0]:[rank16]: boom", Origin(None, 16, 0), "boom"),
        ("[default3]:boom", Origin(None, None, 3), "boom"),
        ("[1,3]<stderr>:boom", Origin(None, 3), "boom"),
        ("[prterun-n1-41@1,3]<stdout>:boom", Origin(None, 3), "boom"),
        ("\x1b[36m(RayTrainWorker pid=71, ip=10.0.0.3)\x1b[0m boom", Origin("10.0.0.3"), "boom"),
        ("[pod/train-worker-1/pytorch] [rank2]: boom", Origin("train-worker-1", 2), "boom"),
        ("n2:5 | boom", Origin("n2", 5), "boom"),
        ("cn021:1804412:1804431 [3] NCCL WARN x", Origin("cn021"), "cn021:1804412:1804431 [3] NCCL WARN x"),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 1] boom", Origin(None, 1), "[E ProcessGroupNCCL.cpp:475] [Rank 1] boom"),
        ("ValueError: boom", Origin(), "ValueError: boom"),
        ("12: boom", Origin(), "12: boom"),
        ('{"loss": 1, "r": 2}', Origin(None, 2), '{"loss": 1, "r": 2}'),
        ('{"p": 0.9, "r": 0.8}', Origin(), '{"p": 0.9, "r": 0.8}'),
    ],
)
def test_prefixes_give_the_process_and_leave_the_text(line: str, origin: Origin, text: str) -> None:
    parsed = LinePrefixes().parse(line, Origin())
    assert (parsed.origin, parsed.text) == (origin, text)


def test_a_prefix_that_looks_like_any_text_counts_where_most_lines_have_it() -> None:
    srun = learn_prefixes(["0: starting", "1: starting", "3: ValueError: x"])
    assert srun.parse("3: ValueError: x", Origin()).origin == Origin(None, 3)
    pdsh = learn_prefixes(["n1: starting", "n2: starting", "n1: step 1", "n2: Traceback (most recent call last):"])
    assert pdsh.parse("n2: step 1", Origin()).origin == Origin("n2")
    assert pdsh.parse("n2: ValueError: x", Origin()).text == "ValueError: x"
    slurm = learn_prefixes(["srun: error: n1: task 3: Killed", "slurmstepd: error: Detected 1 oom_kill event"])
    assert slurm.parse("srun: error: n1: task 3: Killed", Origin()).text == "srun: error: n1: task 3: Killed"
    plain = learn_prefixes(["ValueError: x", "KeyError: y", "RuntimeError: z"])
    assert plain.parse("KeyError: y", Origin()).text == "KeyError: y"
    assert learn_prefixes(["[info] a", "[info] b"]).parse("[error] x", Origin()).origin == Origin()


def test_a_rank_cannot_write_in_the_name_of_another() -> None:
    known = learn_prefixes(["[rank7]: x", "[rank7]: y"], is_of_one=True)
    parsed = known.parse("[rank7]: boom", Origin("n1", 3))
    assert (parsed.origin, parsed.text) == (Origin("n1", 3), "boom")


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("logs/n2/5.out", Origin("n2", 5)),
        ("node1/rank3/stdout.log", Origin("node1", 3)),
        ("rank_3.log", Origin(None, 3)),
        ("/tmp/x/none_abc/attempt_0/3/stderr.log", Origin(None, None, 3)),
        ("gpu07/launcher.err", Origin("gpu07")),
        ("worker-3.log", Origin("worker-3")),
        ("3.err.gz", Origin(None, 3)),
        ("train.log", Origin()),
    ],
)
def test_names_of_files_give_the_process(name: str, origin: Origin) -> None:
    assert origin_of_name(name) == origin


@pytest.mark.parametrize(
    ("line", "zone", "seconds"),
    [
        ("E0102 00:00:01.500000 71 x.cc:1] y", "local", 86401.5),
        ("[W103 00:00:01.250000000 socket.cpp:204] y", "local", 2 * 86400 + 1.25),
        ("2026-01-02T00:00:01.5+01:00 y", "utc", 86401.5 - 3600),
        ("2026-01-02 00:00:01,500 INFO y", "local", 86401.5),
        ("Jan  2 00:00:01 n1 kernel: y", "local", 86401.0),
        ("01/02/2026 00:00:01 - INFO - y", "local", 86401.0),
    ],
)
def test_times_of_all_forms_are_read(line: str, zone: str, seconds: float) -> None:
    time = parse_time(line)
    assert time is not None
    assert (time.zone, time.seconds) == (zone, seconds)
