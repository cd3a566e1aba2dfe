"""Times and hosts of the reports about silent hosts."""

from collections.abc import Sequence
from queue import SimpleQueue

import pytest

from pylaunch.transport import waiting
from pylaunch.transport.waiting import Awaited


def test_a_host_that_has_not_answered_is_reported_once_with_the_time_that_is_left() -> None:
    now = 0.0
    awaited = Awaited(lambda: now)
    with awaited.hosts(["n1", "n2", "n3"], 15.0) as answered:
        assert awaited.silent() == ([], 3.0)
        answered("n1")
        now = 2.5
        with awaited.hosts(["n2", "n4"], 60.0):
            assert awaited.silent() == ([], 0.5)
            now = 3.0
            named, seconds = awaited.silent()
            assert (sorted(named), seconds) == (["n2", "n3"], 12.0), "the first deadline of a host is what it has"
            now = 5.5
            assert awaited.silent() == ([], 0.5), "two reports are not closer than the silence"
            now = 6.0
            assert awaited.silent() == (["n4"], 56.5)
            assert awaited.silent()[0] == []
    with awaited.hosts(["n2"], 15.0):
        now = 9.0
        assert awaited.silent() == (["n2"], 12.0), "it is awaited again"


def test_only_a_person_who_watches_hears_of_silent_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    heard: SimpleQueue[Sequence[str]] = SimpleQueue()
    awaited = Awaited()
    with awaited.hosts(["n1"], 60.0):
        assert awaited._watch is None
    awaited.report_to(lambda hosts, seconds: heard.put(hosts))
    with awaited.hosts(["n2"], 60.0):
        assert heard.get(timeout=60.0) == ["n2"]
