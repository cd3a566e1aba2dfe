import json
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.provision.environments.environment import (
    LockRequest,
    as_requirements,
    lock,
    lock_text,
    previous_environment,
    pylock_requirements,
    read_manifest,
    swap_with_previous,
)
from pylaunch.features.provision.environments.resolution import (
    Wheel,
    blocker,
    next_step,
    read_report,
)


def test_the_lock_names_exactly_one_wheel_for_each_distribution() -> None:
    wheels = [Wheel("torch", "2.13.0+cpu", "torch.whl", "ab12")]
    assert lock_text(wheels, "3.11", "x86_64").splitlines() == [
        "# Made by pylaunch env lock for Python 3.11 on x86_64.",
        "torch==2.13.0+cpu --hash=sha256:ab12",
    ]


def test_a_damaged_manifest_is_refused_with_the_way_out(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    (tmp_path / "manifest.json").write_text('{"id": "1"}')
    with pytest.raises(UsageError, match=r"manifest\.json: not a manifest"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("requirements.txt", "six\n-c missing.txt\n",
         r"requirements\.txt:2: -c missing\.txt: no such requirements file: .*missing\.txt"),
        ("requirements.txt", "-r missing.txt\n", "no such requirements file"),
        ("nowhere/requirements.txt", "", "no such requirements file"),
        ("environment.yml", "dependencies:\n- torch\n",
         r"environment\.yml is a file of conda, and pylaunch locks wheels"),
    ],
)  # fmt: skip
def test_what_cannot_be_locked_is_refused_with_its_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    if text:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        lock(LockRequest((tmp_path / name,), tmp_path / "environment"))


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("six==1.17.0", r"somewhere/pylock\.toml: not a pylock"),
        ("[project]\nname = 'x'\n", r"somewhere/pylock\.toml: not a pylock"),
        ("[[packages]]\nname = 'x'\nwheels = [{}]\n", r"somewhere/pylock\.toml: not a pylock"),
        ("[[packages]]\nname = 'six'\nversion = '1'\n", "six has no wheel"),
    ],
)
def test_an_invalid_pylock_file_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pylock_requirements(text, "somewhere/pylock.toml")


def test_requirements_of_pip_stay_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "requirements.txt"
    source.write_text("six\n")
    assert as_requirements(source, tmp_path) == source


NOT_FOUND = """\
ERROR: Could not find a version that satisfies the requirement antlr4-python3-runtime==4.9.* (from hydra-core) (from \
versions: 4.11.0, 4.11.1, 4.12.0, 4.13.0, 4.13.1, 4.13.2)
ERROR: No matching distribution found for antlr4-python3-runtime==4.9.* (from hydra-core)
"""
"""Output of pip 25 for hydra-core==1.3.2 with --only-binary :all:."""


def test_the_distribution_without_a_wheel_is_found_in_the_output_of_pip() -> None:
    assert blocker(NOT_FOUND) == "antlr4-python3-runtime==4.9.*"
    assert blocker("ERROR: No matching distribution found for deepspeed==0.19.8\n") == "deepspeed==0.19.8"
    assert blocker("ERROR: Could not install packages due to an OSError\n") is None


def report(url: str, **download: object) -> str:
    """What pip reports of one package."""
    metadata = {"name": "Torch", "version": "2.13.0+cpu"}
    return json.dumps({"install": [{"metadata": metadata, "download_info": {"url": url, **download}}]})


def test_a_report_of_pip_is_read() -> None:
    text = report("https://index/torch-2.13.0%2Bcpu-cp311.whl", archive_info={"hashes": {"sha256": "ab12"}})
    assert read_report(text) == [Wheel("torch", "2.13.0+cpu", "torch-2.13.0+cpu-cp311.whl", "ab12")]


@pytest.mark.parametrize("archive", [{}, {"archive_info": {}}, {"archive_info": {"hashes": {"md5": "ab12"}}}])
def test_an_index_without_sha256_is_an_error_with_the_way_out(archive: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"no SHA-256 of torch\.whl") as caught:
        read_report(report("https://index/torch.whl", **archive))
    assert str(caught.value.hint).startswith("pip download --no-deps --dest wheels Torch==2.13.0+cpu, then put")


def test_a_package_from_a_repository_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="only wheels can be locked") as caught:
        read_report(report("https://host/torch.git", vcs_info={"vcs": "git"}))
    assert "pip wheel --no-deps --wheel-dir wheels https://host/torch.git" in str(caught.value.hint)


NO_VERSION = """\
ERROR: Could not find a version that satisfies the requirement {0} (from versions: {1})
ERROR: No matching distribution found for {0}
"""


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have …",
            "write their hashes",
        ),
        (
            "ERROR: Cannot install numpy<2 and numpy>=2 because …\nERROR: ResolutionImpossible: for help …",
            "exclude each",
        ),
        ("ERROR: No matching distribution found for torch==9.9\n", "pip wheel --no-deps --wheel-dir wheels torch==9.9"),
        (
            NO_VERSION.format("torch==9.9", "2.12.0, 2.13.0"),
            "correct the version of torch==9.9: the newest wheel for this Python and machine is 2.13.0; only wheels",
        ),
        (
            NO_VERSION.format("torhc", "none"),
            "correct the name torhc, or the index; only wheels can be locked: if torhc is source, build one: pip wheel",
        ),
        ("ERROR: something else", "only wheels can be locked: a package"),
    ],
)
def test_the_hint_follows_the_failure_of_pip(output: str, hint: str) -> None:
    assert hint in next_step(output)
