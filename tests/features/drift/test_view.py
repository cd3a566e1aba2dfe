"""Differences between hosts as a table."""

from __future__ import annotations

import pytest

from pylaunch.features.drift.judgement import Cause, Oddity, Report, Why
from pylaunch.features.drift.view import show


def test_hosts_that_agree_and_lack_what_a_role_wants_are_not_shown_as_different_from_themselves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = Oddity("configuration", "/etc/x.conf", "absent", 3, ("n1", "n2", "n3"), "absent",
                     (Why(Cause.CONFIGURATION, "missing"),))  # fmt: skip
    odd = Oddity("packages", "package apt", "2.6", 2, ("n2",), "2.7", (Why(Cause.CLUSTER),))
    show(Report((missing, odd), {}))
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["/etc/x.conf", "all", "agree", "n[1-3]", "absent", "configuration", "(missing)"]
    assert second.split() == ["package", "apt", "2.6", "(2)", "n2", "2.7", "cluster"]
