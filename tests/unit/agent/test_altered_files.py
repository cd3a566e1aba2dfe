"""Altered files of an environment, as the probe finds them."""

import base64
import hashlib
from pathlib import Path

import pytest

from pylaunch.agent.shared.installed import MARKER, altered_files


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return the site-packages of an environment with one unaltered distribution."""
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
    return altered_files(str(packages.parents[2]))


def test_an_unaltered_environment_has_none(packages: Path) -> None:
    assert found(packages) == []


def test_an_edited_file_is_named_with_its_distribution(packages: Path) -> None:
    (packages / "deep" / "er.py").write_text("x = 2\n")
    assert found(packages) == [["six-1.17.0", str(packages / "deep" / "er.py"), "edited"]]


@pytest.mark.parametrize("name", ["sitecustomize.py", "evil.pth", "json.so"])
def test_a_file_of_no_package_that_affects_imports_is_named(packages: Path, name: str) -> None:
    (packages / name).write_text("")
    assert found(packages) == [["no package", str(packages / name), "added"]]
