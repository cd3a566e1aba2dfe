"""Flags about hangs and reports: values out of range and flags without effect are refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from pylaunch.cli.flags.environment import Environment
from pylaunch.cli.flags.start import NAMED_BY_RUN, StartFlags
from pylaunch.errors import UsageError
from pylaunch.model.job import Framework, JobSpec, OnHang
from pylaunch.model.secret import Secrets


def job(flags: StartFlags) -> JobSpec:
    return flags.job(("true",), Framework.COMMAND, Environment({}, Secrets()), None, is_unread=False)


def test_ranks_are_examined_after_half_a_minute_and_nothing_is_ended() -> None:
    plain = job(StartFlags(workdir="/"))
    assert (plain.hang_after, plain.on_hang) == (timedelta(seconds=30), OnHang.OBSERVE)


def test_the_watch_can_be_changed_and_turned_off() -> None:
    assert job(StartFlags(workdir="/", hang_after="120.5")).hang_after == timedelta(seconds=120.5)
    assert job(StartFlags(workdir="/", hang_after="off")).hang_after is None
    assert job(StartFlags(workdir="/", on_hang="restart", max_restarts=1)).on_hang is OnHang.RESTART


@pytest.mark.parametrize("text", ["0", "0.5", "-1", "soon", "nan", "inf", "1e9", ""])
def test_a_time_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--hang-after"):
        job(StartFlags(workdir="/", hang_after=text))


def test_an_action_without_effect_is_refused() -> None:
    with pytest.raises(UsageError, match="--on-hang stop has no effect with --hang-after off"):
        job(StartFlags(workdir="/", on_hang="stop", hang_after="off"))
    with pytest.raises(UsageError, match="--on-hang restart has no effect without --max-restarts"):
        job(StartFlags(workdir="/", on_hang="restart"))


def test_the_word_after_report_is_a_file_and_never_the_script(tmp_path: Path) -> None:
    assert StartFlags().report_file() is None
    assert StartFlags(report=NAMED_BY_RUN).report_file() == Path(NAMED_BY_RUN)
    assert StartFlags(report=str(tmp_path / "why.html")).report_file() == tmp_path / "why.html"
    with pytest.raises(UsageError, match=r"--report train.py: expected a name that ends in \.html"):
        StartFlags(report="train.py").report_file()
    (tmp_path / "why.html").touch()
    with pytest.raises(UsageError, match="exists already"):
        StartFlags(report=str(tmp_path / "why.html")).report_file()
