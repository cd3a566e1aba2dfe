"""`pylaunch verify` before and around its specifications: tools and the report's directory."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.verify import verification
from pylaunch.model.cluster import Cluster, Host


def test_the_hint_installs_the_tools_and_no_foreign_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed: pytest, testinfra") as refused:
        verification._require_tools()
    assert refused.value.hint is not None
    assert shlex.split(refused.value.hint) == [sys.executable, "-m", "pip", "install", "pytest", "pytest-testinfra"]


def test_a_report_in_a_directory_that_does_not_exist_is_refused_before_a_host_is_asked(tmp_path: Path) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("cluster.ini",))
    with pytest.raises(UsageError, match=r"no such directory: .*/elsewhere") as refused:
        verification.verify(cluster, junit=tmp_path / "elsewhere" / "report.xml")
    assert refused.value.hint == f"mkdir -p {tmp_path / 'elsewhere'}"
    assert not (tmp_path / "elsewhere").exists()


def test_a_role_that_does_not_exist_is_refused_with_those_that_do() -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("cluster.ini",))
    with pytest.raises(UsageError, match="no such role: python_evn") as refused:
        verification.verify(cluster, roles=("python_env", "python_evn"))
    assert refused.value.hint is not None
    assert "python_env" in refused.value.hint
