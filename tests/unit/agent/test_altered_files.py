"""What the probe finds in an environment when it looks at every file."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from pylaunch.agent.facts import altered_files


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
    (packages / "_virtualenv.pth").write_text("import _virtualenv\n")
    (packages / "__pycache__").mkdir()
    (packages / "__pycache__" / "six.cpython-311.pyc").write_bytes(b"compiled")
    (packages / "deep" / "cache.so").write_bytes(b"made when it was first used")
    return packages


def found(packages: Path) -> list[list[str]]:
    return altered_files(str(packages.parents[2]))


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
