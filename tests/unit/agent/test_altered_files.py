"""What the probe finds in an environment when it looks at every file."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest

from pylaunch.agent.probe import altered
from pylaunch.agent.probe.altered import altered_files, touched_files
from pylaunch.agent.shared.installed import MARKER


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The site-packages of an environment with one distribution, as it was installed."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    rows = []
    for name, text in {"six.py": "six = 6\n", "deep/er.py": "x = 1\n", "../../../bin/six": "#!python\n"}.items():
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(text)}")
    info = packages / "six-1.17.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("\n".join([*rows, "six-1.17.0.dist-info/RECORD,,"]) + "\n")
    (tmp_path / MARKER).write_text("{}")
    (packages / "_virtualenv.pth").write_text("import _virtualenv\n")
    (packages / "__pycache__").mkdir()
    (packages / "__pycache__" / "six.cpython-311.pyc").write_bytes(b"compiled")
    (packages / "deep" / "cache.so").write_bytes(b"made when it was first used")
    return packages


def found(packages: Path) -> list[list[str]]:
    every, touched = altered_files(str(packages.parents[2])), touched_files(str(packages.parents[2]))
    assert every == touched, "the quick look finds what the thorough one does"
    return every


def test_an_environment_as_it_was_installed_has_none(packages: Path) -> None:
    assert found(packages) == []


def test_an_edited_file_is_named_with_its_distribution(packages: Path) -> None:
    (packages / "deep" / "er.py").write_text("x = 2\n")
    assert found(packages) == [["six-1.17.0", str(packages / "deep" / "er.py"), "edited"]]


def test_a_removed_script_is_named_where_it_was(packages: Path) -> None:
    script = packages.parents[2] / "bin" / "six"
    script.unlink()
    assert found(packages) == [["six-1.17.0", str(script), "missing"]]


@pytest.mark.parametrize("name", ["sitecustomize.py", "evil.pth", "json.so"])
def test_a_file_that_no_package_brought_and_every_import_sees_is_named(packages: Path, name: str) -> None:
    (packages / name).write_text("")
    assert found(packages) == [["no package", str(packages / name), "added"]]


def test_an_edit_of_the_same_size_is_seen_by_its_time_and_one_whose_time_was_set_back_by_its_bytes_alone(
    packages: Path,
) -> None:
    edited = packages / "deep" / "er.py"
    installed = (packages.parents[2] / MARKER).stat().st_mtime
    edited.write_text("x = 7\n")
    os.utime(edited, (installed, installed + 60))
    assert found(packages) == [["six-1.17.0", str(edited), "edited"]]
    os.utime(edited, (installed, installed - 60))
    assert touched_files(str(packages.parents[2])) == []
    assert altered_files(str(packages.parents[2])) == [["six-1.17.0", str(edited), "edited"]]


def test_a_file_that_was_only_touched_is_as_it_was_installed(packages: Path) -> None:
    touched = packages / "six.py"
    later = touched.stat().st_mtime + 3600
    os.utime(touched, (later, later))
    assert found(packages) == []


def test_scripts_of_an_environment_that_is_not_ours_are_left_out_and_its_libraries_are_not(packages: Path) -> None:
    (packages.parents[2] / MARKER).unlink()
    (packages.parents[2] / "bin" / "six").write_text("#!elsewhere\n")
    (packages / "six.py").write_text("six = 7777\n")
    assert touched_files(str(packages.parents[2])) == [["six-1.17.0", str(packages / "six.py"), "edited"]]


def test_the_marker_that_the_role_writes_is_the_one_that_is_looked_for() -> None:
    assert altered.MARKER == MARKER
