"""Options of a start: their values, and their defaults, which are those of a job."""

from datetime import timedelta
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.job import Framework, JobSpec, OnHang
from pylaunch.model.secret import Secrets
from pylaunch.terminal.flags.start import OPTIONS, Environment, StartFlags, requested


def job(flags: StartFlags) -> JobSpec:
    return flags.job(("true",), Framework.COMMAND, Environment({}, Secrets()), None, is_unread=False)


BY_NAME = {each.name: each for each in OPTIONS}


def test_an_option_of_the_job_has_the_default_of_the_job() -> None:
    plain = JobSpec(("true",), Framework.COMMAND, "/")
    assert {each.name: getattr(plain, each.field) for each in OPTIONS if each.field} == {
        each.name: each.default for each in OPTIONS if each.field
    }
    assert job(StartFlags(workdir="/")) == plain
    assert (BY_NAME["hang_after"].shown_default, BY_NAME["grace"].shown_default[:2]) == ("30", "10")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hang_after", "120.5", timedelta(seconds=120.5)),
        ("hang_after", "off", None),
        ("nproc_per_node", "auto", None),
        ("nproc_per_node", "2", 2),
        ("on_hang", "restart", OnHang.RESTART),
        ("python", "", None),
    ],
)
def test_a_text_becomes_a_value_of_the_job(name: str, text: str, value: object) -> None:
    assert BY_NAME[name].value(text) == value


@pytest.mark.parametrize("text", ["soon", "nan", ""])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number of seconds, or off"):
        BY_NAME["hang_after"].value(text)


def test_the_line_to_type_in_place_of_another_launchers_ships_the_same_directory(tmp_path: Path) -> None:
    words = ("deepspeed", "--hostfile", "h", "t.py")
    for asked, hint in (
        (str(tmp_path), f"pylaunch start --sync {tmp_path} --framework"),
        (None, "pylaunch start --fr"),
    ):
        with pytest.raises(UsageError) as refused:
            requested(StartFlags(words=words, sync=asked), {})
        assert (refused.value.hint or "").startswith(hint)


def test_patterns_without_a_tree_are_refused() -> None:
    with pytest.raises(UsageError, match="goes with --sync"):
        requested(StartFlags(words=("true",), sync_exclude=("*.bin",)), {})
