"""Reports of launchers about ranks that ended: the first signal is named, a stop by the launcher itself is not."""

from __future__ import annotations

import pytest

from pylaunch.store.signatures import signatures
from pylaunch.verdict.logs.facts import LogFacts
from pylaunch.verdict.logs.judgement import LogCause, judge_texts
from pylaunch.verdict.logs.scan import LogSearch, scan

SEARCH = LogSearch.of(signatures())
LOST = (
    'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\nring.PeerLost: connection closed by peer\n'
)


def first_of(text: str) -> LogCause | None:
    return judge_texts(signatures(), LogFacts([scan(SEARCH, "x.log", [text.encode()])])).first


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
    found = first_of(f"start\n{LOST}{report}\n")
    assert found is not None
    assert (found.cause.id, found.ranks) == (cause, (rank,))


@pytest.mark.parametrize(
    "log",
    [
        "rank 1 exited with 1\nrank 0 exited with -9\n",
        "WARNING launcher | sending SIGTERM to 2 remaining ranks\nrank 0 (pid 7) exited with -15\n",
        "rank 2 exited with -1\njob finished with code 1\n",
    ],
    ids=["after another end", "after a stop by the launcher", "a code that is no signal"],
)
def test_an_end_that_another_end_or_a_stop_precedes_names_no_signal(log: str) -> None:
    found = first_of(log)
    assert found is None or (found.cause.id, found.ranks) == ("unexplained", ())


def test_a_process_is_named_where_a_parent_lists_the_ends_of_all() -> None:
    found = first_of("INFO exit codes: {'loader-0': 0, 'trainer-0': 1, 'loader-1': -9}\n")
    assert found is not None
    assert found.text.startswith("process loader-1 was ended by SIGKILL")
