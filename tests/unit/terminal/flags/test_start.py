"""Flags about hangs and reports: values out of range and flags without effect are refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework, JobSpec, OnHang
from pylaunch.model.secret import Secrets
from pylaunch.terminal.flags.environment import Environment
from pylaunch.terminal.flags.requested import requested
from pylaunch.terminal.flags.start import StartFlags


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


def test_the_line_to_type_in_place_of_another_launchers_ships_the_same_directory(tmp_path: Path) -> None:
    words = ("deepspeed", "--hostfile", "h", "t.py")
    for asked, hint in (
        (str(tmp_path), f"pylaunch start --sync {tmp_path} --framework"),
        (None, "pylaunch start --fr"),
    ):
        with pytest.raises(UsageError) as refused:
            requested(StartFlags(words=words, sync=asked), {})
        assert (refused.value.hint or "").startswith(hint)
