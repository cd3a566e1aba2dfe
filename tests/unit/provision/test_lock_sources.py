from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.provision.environments.environment import as_requirements, pylock_requirements

PYLOCK = """\
lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "six"
version = "1.17.0"
wheels = [
  { url = "six-a.whl", hashes = { sha256 = "aa" } },
  { url = "six-b.whl", hashes = { sha256 = "bb" } },
]

[[packages]]
name = "colorama"
version = "0.4.6"
marker = "sys_platform == 'win32'"
wheels = [{ url = "colorama.whl", hashes = { sha256 = "cc" } }]
"""


def test_a_pylock_file_is_requirements_with_every_hash_and_marker() -> None:
    assert pylock_requirements(PYLOCK, "pylock.toml").splitlines() == [
        "six==1.17.0 --hash=sha256:aa --hash=sha256:bb",
        "colorama==0.4.6 ; sys_platform == 'win32' --hash=sha256:cc",
    ]


def test_a_package_without_wheels_is_named() -> None:
    with pytest.raises(UsageError, match="six has no wheel"):
        pylock_requirements('[[packages]]\nname = "six"\nversion = "1"\n', "pylock.toml")


@pytest.mark.parametrize(
    "text", ["six==1.17.0", "[project]\nname = 'x'\n", "[[packages]]\nname = 'x'\nwheels = [{}]\n"]
)
def test_an_invalid_pylock_file_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"somewhere/pylock\.toml: not a pylock"):
        pylock_requirements(text, "somewhere/pylock.toml")


def test_requirements_of_pip_stay_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "requirements.txt"
    source.write_text("six\n")
    assert as_requirements(source, tmp_path) == source
