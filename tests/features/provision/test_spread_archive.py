"""Hosts to which an archive, or a part of it, is passed on."""

from pathlib import Path
from typing import Any

import pytest

from pylaunch.agent.probe.readers.hosts import python_env
from pylaunch.features.provision.environments import spread_archive
from pylaunch.features.provision.environments.spread_archive import lacking
from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import Unreachable
from pylaunch.protocol.readings.hosts import EnvironmentsQuestion


def test_hosts_that_have_the_environment_lack_nothing_and_the_others_what_their_own_has_not(tmp_path: Path) -> None:
    root = tmp_path / "opt"
    (root / "envs" / "1").mkdir(parents=True)
    question: EnvironmentsQuestion = {"path": f"{root}/envs/2", "links": [f"{root}/named/vision", f"{root}/current"]}
    assert python_env.environments({**question, "path": f"{root}/envs/1"}) is None
    assert python_env.environments(question) == ""
    (root / "current").symlink_to("envs/1")
    assert python_env.environments(question) == "1"
    (root / "named").mkdir()
    (root / "named" / "vision").symlink_to("../envs/0")
    assert python_env.environments(question) == "0"


def test_a_host_that_does_not_answer_is_left_to_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {
        "n1": {"readings": {python_env.environments: {"value": "0", "seconds": 0.1}}},
        "n2": {"readings": {python_env.environments: {"value": None, "seconds": 0.1}}},
        "n3": Unreachable("no route"),
    }
    monkeypatch.setattr(spread_archive, "ask", lambda cluster, programs: answers)
    assert lacking(Cluster(tuple(Host(name, name) for name in answers)), "2") == {"n1": "0"}
