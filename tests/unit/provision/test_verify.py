"""`pylaunch verify` before and around its specifications: tools, the report's directory, the survey."""

import importlib.util
import itertools
import pickle
import shlex
import sys
from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable
from pylaunch.provision import verify
from pylaunch.provision.convergence import ProvisionRequest, ProvisionSurvey
from pylaunch.provision.desired import Desired
from pylaunch.transport import process
from pylaunch.transport.process import Completed


def test_the_hint_installs_the_tools_and_no_foreign_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed: pytest, testinfra") as refused:
        verify._require_tools()
    assert refused.value.hint is not None
    assert shlex.split(refused.value.hint) == [sys.executable, "-m", "pip", "install", "pytest", "pytest-testinfra"]


def test_a_report_in_a_directory_that_does_not_exist_is_refused_before_a_host_is_asked(tmp_path: Path) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("cluster.ini",))
    with pytest.raises(UsageError, match=r"no such directory: .*/elsewhere") as refused:
        verify.verify(cluster, junit=tmp_path / "elsewhere" / "report.xml")
    assert refused.value.hint == f"mkdir -p {tmp_path / 'elsewhere'}"
    assert not (tmp_path / "elsewhere").exists()


def test_hosts_are_asked_once_and_the_specifications_get_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1"),), sources=("cluster.ini",))
    found = ProvisionSurvey(Desired({}, ()), {"n1": Unreachable("no route")}, {}, {})
    asked: list[bool] = []
    received: list[ProvisionSurvey] = []

    def answers(request: ProvisionRequest) -> ProvisionSurvey:
        asked.append(request.deep)
        return found

    def specifications(argv: tuple[str, ...]) -> Completed:
        option = dict(itertools.pairwise(argv))
        received.append(pickle.loads(Path(option["--survey"]).read_bytes()))
        Path(option["--junit-xml"]).write_text("<testsuites/>")
        return Completed(argv, verify.ALL_PASSED, "", "")

    monkeypatch.setattr(verify, "survey", answers)
    monkeypatch.setattr(process, "run", specifications)
    report = verify.verify(cluster, deep=True)
    assert asked == [True]
    assert received == [found]
    assert report.unreachable == found.unreachable
