"""The one task per host that brings the agent, through Ansible itself."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pylaunch.runs.prepare import launch
from pylaunch.transport.collection import assemble

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def play(tmp_path: Path) -> Any:
    """Run the playbook on this machine; what the module answered for it, by a callback that prints JSON."""
    built = launch.build()
    assemble(REPOSITORY, tmp_path / "collections")

    def run(*more: str, version: str = built.version, root: str = f"{tmp_path}/root-{{user}}") -> dict[str, Any]:
        given = {
            "pylaunch_agent_archive": base64.b64encode(built.data).decode(),
            "pylaunch_agent_version": version,
            "pylaunch_agent_roots": {"here": root},
            "pylaunch_agent_pythons": {"here": "/usr/bin/python3"},
        }
        (tmp_path / "given.json").write_text(json.dumps(given))
        (tmp_path / "inventory").write_text(
            f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n"
        )
        words = ["-i", f"{tmp_path}/inventory", "-e", f"@{tmp_path}/given.json", "-v", *more]
        ended = subprocess.run(
            [Path(sys.executable).parent / "ansible-playbook", *words, REPOSITORY / "playbooks/prepare.yml"],
            capture_output=True, text=True, check=False, timeout=300,
            env={
                **os.environ, "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_PIPELINING": "True", "ANSIBLE_HOME": f"{tmp_path}/controller",
                "ANSIBLE_COLLECTIONS_PATH": f"{tmp_path}/collections", "HOME": f"{tmp_path}/home",
            },
        )  # fmt: skip
        line = next(line for line in ended.stdout.splitlines() if "=> {" in line)
        answer: dict[str, Any] = json.loads(line.partition("=> ")[2])
        return answer

    return run


def test_the_agent_is_installed_by_its_content_once(play: Any, tmp_path: Path) -> None:
    version = launch.build().version
    target = tmp_path / f"root-{os.getuid()}" / "agents" / f"{version}.pyz"
    dry = play("--check")
    assert dry["changed"]
    assert not target.parent.exists()
    first = play()
    assert (first["changed"], first["agent"], first["version"]) == (True, str(target), version)
    assert target.read_bytes() == launch.build().data
    assert not play()["changed"]
    assert not (tmp_path / "home").exists(), "a start writes nothing to the home directory of a node"


def test_an_archive_that_changed_on_the_way_is_refused(play: Any) -> None:
    assert "expected 0000" in play(version="0" * 16)["msg"]
