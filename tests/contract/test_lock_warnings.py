"""`env lock` reports an old version that pip chose because a newer one has no wheel, and nothing else."""

import os
import zipfile
from pathlib import Path

import pytest

from pylaunch.provision.environments.environment import LockProgress, LockRequest, lock


def wheel(index: Path, name: str, version: str, requires_python: str = ">=3.8") -> str:
    """A wheel without content in `index`; the line of the index that leads to it."""
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    records = f"{name.replace('-', '_')}-{version}.dist-info"
    with zipfile.ZipFile(index / name / file, "w") as archive:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {requires_python}\n"
        archive.writestr(f"{records}/METADATA", metadata)
        archive.writestr(f"{records}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{records}/RECORD", "")
    return f'<a href="{file}" data-requires-python="{requires_python.replace(">", "&gt;")}">{file}</a>'


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index beside the one that pip is configured for: one project whose newest release is only a source
    distribution, one whose newest release wants a newer Python than the hosts have."""
    index = tmp_path / "index"
    for name in ("pylaunch-test-old", "pylaunch-test-young"):
        (index / name).mkdir(parents=True)
    (index / "pylaunch-test-old" / "pylaunch_test_old-2.0.tar.gz").touch()
    source = '<a href="pylaunch_test_old-2.0.tar.gz">pylaunch_test_old-2.0.tar.gz</a>'
    (index / "pylaunch-test-old" / "index.html").write_text(wheel(index, "pylaunch-test-old", "1.0") + source)
    lines = wheel(index, "pylaunch-test-young", "1.0") + wheel(index, "pylaunch-test-young", "2.0", ">=3.9")
    (index / "pylaunch-test-young" / "index.html").write_text(lines)
    configured = os.environ.get("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{configured} {index.as_uri()}".strip())
    return index


def test_an_old_version_is_reported_where_a_wheel_would_help_and_nowhere_else(index: Path, tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("pylaunch-test-old\npylaunch-test-young\n")
    output: list[str] = []
    request = LockRequest((tmp_path / "requirements.txt",), tmp_path / "environment", "3.8")
    locked = lock(request, LockProgress(output.append))
    assert dict(locked.manifest.packages) == {"pylaunch-test-old": "1.0", "pylaunch-test-young": "1.0"}
    (warning,) = output
    assert "pylaunch-test-old 1.0 is locked, the newest is 2.0: pylaunch-test-old==2.0 has no wheel" in warning
    assert "pip wheel --no-deps --wheel-dir wheels pylaunch-test-old==2.0" in warning
