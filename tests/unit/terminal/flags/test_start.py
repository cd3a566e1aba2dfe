"""Flags about hangs and reports: values out of range and flags without effect are refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from pylaunch.cli.lent_terminal import lent_terminal
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


def test_hangs_are_not_watched_and_the_run_ends_with_its_controller_while_a_person_debugs() -> None:
    debugged = job(StartFlags(workdir="/", debug_rank=1))
    assert (debugged.debug_rank, debugged.hang_after, debugged.ends_with_controller) == (1, None, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (StartFlags(debug_rank=1, max_restarts=2), "--debug-rank 1 and --max-restarts 2: another attempt"),
        (StartFlags(debug_rank=1, on_hang="stop"), "--debug-rank 1 and --on-hang stop: a rank at a prompt"),
    ],
)
def test_what_contradicts_a_debugged_rank_is_refused(flags: StartFlags, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        job(flags)


@pytest.mark.parametrize(("detach", "as_json"), [(True, False), (False, True), (False, False)])
def test_a_rank_gets_no_terminal_where_no_person_is(detach: bool, as_json: bool) -> None:
    assert lent_terminal(None, detach=detach, as_json=as_json) is None
    expected = "--detach" if detach else "--json" if as_json else "stdin is not a terminal"
    with pytest.raises(UsageError, match=expected):
        lent_terminal(0, detach=detach, as_json=as_json)


def test_the_line_to_type_in_place_of_another_launchers_ships_the_same_directory(tmp_path: Path) -> None:
    words = ("deepspeed", "--hostfile", "h", "t.py")
    for asked, hint in (
        (str(tmp_path), f"pylaunch start --sync {tmp_path} --framework"),
        (None, "pylaunch start --fr"),
    ):
        with pytest.raises(UsageError) as refused:
            requested(StartFlags(words=words, sync=asked), {}, ())
        assert (refused.value.hint or "").startswith(hint)
