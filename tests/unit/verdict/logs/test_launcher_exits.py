"""Reports of launchers about ranks that ended: the first signal is named, a stop by the launcher itself is not."""

import pytest

from pylaunch.store.content import signatures
from pylaunch.verdict.logs.attempts import last_attempts
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import LogCause, judge_texts
from tests.unit.verdict.logs.judged import cause_in, scanned

LOST = (
    'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\nring.PeerLost: connection closed by peer\n'
)


def cause_of(text: str) -> LogCause:
    return cause_in(last_attempts([scanned(text)]))


def first_of(text: str) -> LogCause | None:
    return judge_texts(signatures(), LogFacts(last_attempts([scanned(text)]))).first


@pytest.mark.parametrize(
    ("report", "cause", "rank"),
    [
        ("ERROR launcher | rank 3 (pid 14383) exited with -9", "killed", 3),
        ("worker 2 died with signal 11", "native-crash", 2),
        ("[run] trainer-1 finished with 137", "killed", 1),
        ("process 0 was killed by signal 15", "stopped-from-outside", 0),
        ('{"event": "worker_failed", "rank": 4, "exitcode": -7}', "native-crash", 4),
    ],
)
def test_the_rank_that_a_signal_ended_first_is_the_cause_of_what_its_peers_print(
    report: str, cause: str, rank: int
) -> None:
    found = cause_of(f"start\n{LOST}{report}\n")
    assert (found.cause.id, found.ranks) == (cause, (rank,))


@pytest.mark.parametrize(
    "log",
    [
        "rank 1 exited with 1\nrank 0 exited with -9\n",
        "WARNING launcher | sending SIGTERM to 2 remaining ranks\nrank 0 (pid 7) exited with -15\n",
        "rank 2 exited with -1\njob finished with code 1\n",
        '{"rank": 0, "event": "worker_failed", "exitcode": 21}\n',
    ],
    ids=["after another end", "after a stop by the launcher", "a code that is no signal", "an exit code"],
)
def test_an_end_that_another_end_or_a_stop_precedes_names_no_signal(log: str) -> None:
    found = first_of(log)
    assert found is None or (found.cause.id, found.ranks) == ("unexplained", ())


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("loading\nrun.sh: line 8: 10580 Killed      python train.py\ncleaning up\nrc=137\n", "killed"),
        ("loading\nTimeout (0:00:09)!\nThread 0x7f (most recent call first):\njob ended rc=124\n", None),
        ("loading\nexit code 143\n", "stopped-from-outside"),
        ("loading\ndataloader worker 3 exited with -9\n", None),
        (
            f"loading\n{LOST.replace('ring.PeerLost: connection closed by peer', 'KeyError: 1')}rc=137\n",
            "unexplained",
        ),
    ],
)
def test_the_signal_that_a_shell_reports_at_the_end_is_the_cause_where_nothing_else_failed(
    log: str, cause: str | None
) -> None:
    found = first_of(log)
    assert (None if found is None else found.cause.id) == cause


def test_processes_that_a_supervisor_stops_after_a_good_end_are_no_failure() -> None:
    stops = "system | sending SIGTERM to ps.1 (pid 7)\nsystem | ps.1 stopped (rc=-15)\n"
    assert first_of(f"step 9\nsystem | chief.1 stopped (rc=0)\n{stops}") is None
    assert first_of(f"step 9\nsystem | chief.1 stopped (rc=4)\n{stops}") is not None
    logs = ("step 9\nsystem | chief.1 stopped (rc=0)\n", f"step 9\nstep 10\n{stops}")
    assert cause_in([scanned(text, name) for name, text in zip(("a.log", "b.log"), logs, strict=True)]), (
        "another supervisor planned nothing"
    )


ATTEMPT = '[w0] step 1\n[w1] Traceback (most recent call last):\n[w1]   File "/srv/a.py", line 3, in f\n[w1] {}\n'


@pytest.mark.parametrize("again", ["[runner] attempt 2 of 3", "=== restart 2/3 ===", "run.sh: starting attempt 2"])
def test_only_the_last_attempt_of_a_launcher_of_its_own_counts(again: str) -> None:
    both = f"[w0] up\n{ATTEMPT.format('OSError: nfs3 is gone')}{again}\n{ATTEMPT.format('AssertionError: gradient')}"
    found = cause_of(both)
    assert found.text.startswith("rank 1: AssertionError")
    for of_one_call in ("[w0] attempt 2 of 3: download", "[w0] download: attempt 2/3"):
        older = cause_of(both.replace(again, of_one_call))
        assert "OSError" in older.text
