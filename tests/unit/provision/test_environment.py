from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.provision.environments.environment import (
    LockRequest,
    Wheel,
    lock,
    lock_text,
    previous_environment,
    read_manifest,
    swap_with_previous,
)


def test_the_lock_names_exactly_one_wheel_for_each_distribution() -> None:
    wheels = [Wheel(Path("torch.whl"), "torch", "2.13.0+cpu", "ab12", 1)]
    assert lock_text(wheels, "3.11", "x86_64").splitlines() == [
        "# Made by pylaunch env lock for Python 3.11 on x86_64.",
        "torch==2.13.0+cpu --hash=sha256:ab12",
    ]


def test_there_is_no_manifest_before_the_first_lock(tmp_path: Path) -> None:
    assert read_manifest(tmp_path / "environment") is None


def test_a_damaged_manifest_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"id": "1"}')
    with pytest.raises(UsageError, match=r"manifest\.json: not a manifest"):
        read_manifest(tmp_path)


def test_requirements_that_do_not_exist_are_named_before_anything_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r missing.txt\n")
    for missing in ("nowhere.txt", "requirements.txt"):
        with pytest.raises(UsageError, match="no such requirements file"):
            lock(LockRequest((tmp_path / missing,), tmp_path / "environment"))


def test_rolling_back_twice_comes_back(tmp_path: Path) -> None:
    now, before = tmp_path / "environment", tmp_path / "environment.previous"
    for directory in (now, before):
        directory.mkdir()
        (directory / "mark").write_text(directory.name)
    swap_with_previous(now)
    assert ((now / "mark").read_text(), (before / "mark").read_text()) == (before.name, now.name)
    swap_with_previous(now)
    assert (now / "mark").read_text() == now.name


def test_there_is_nothing_to_roll_back_to_before_the_second_lock(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no environment to roll back to: .*/environment\.previous does not exist"):
        previous_environment(tmp_path / "environment")
