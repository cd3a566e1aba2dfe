"""The Ansible modules that import nothing of Ansible, run by Ansible on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.store import content
from pylaunch.transport.runner import PlaybookResult, PlaybookRun, run_playbook

HERE = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))
HOSTILE = '""" \'\'\' \\ \\" \n <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>> größer 😀'

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Say
      pylaunch_command: {argv: [printf, "%s|%s", "{{ hostile }}", 7]}
    - name: Fail
      pylaunch_command: {argv: [sh, -c, "echo no such widget >&2; exit 3"]}
      ignore_errors: true
    - name: Fail to start
      pylaunch_command: {argv: [no-such-program]}
      ignore_errors: true
    - name: Write
      pylaunch_files: {files: "{{ files }}"}
"""


def play(directory: Path, *, check: bool) -> PlaybookResult:
    """Run the play with the modules of the playbooks."""
    playbook = directory / "playbooks" / "test.yml"
    playbook.parent.mkdir(exist_ok=True)
    playbook.write_text(PLAY)
    if not (modules := playbook.parent / "library").exists():
        modules.symlink_to(content.playbook("site").parent / "library")
    files = [{"path": str(directory / "file"), "content": HOSTILE, "mode": "0644"}]
    return run_playbook(
        PlaybookRun(playbook, HERE, extra_vars={"hostile": HOSTILE, "files": files}, check=check),
    )


def test_arguments_arrive_as_they_are_and_ends_are_reported(tmp_path: Path) -> None:
    done = play(tmp_path, check=False)
    assert done.ok, done.failures
    returned = done.returned["here"]
    assert (returned["Say"]["stdout"], returned["Say"]["rc"], returned["Say"]["changed"]) == (f"{HOSTILE}|7", 0, True)
    failed = returned["Fail"]
    assert (failed["rc"], failed["stderr"], failed["msg"]) == (3, "no such widget", "non-zero return code")
    assert "No such file" in returned["Fail to start"]["msg"]
    assert (tmp_path / "file").read_text() == HOSTILE


def test_check_mode_reports_changes_and_makes_none(tmp_path: Path) -> None:
    done = play(tmp_path, check=True)
    assert done.ok, done.failures
    returned = done.returned["here"]
    assert [(name, returned[name]["changed"]) for name in ("Say", "Write")] == [("Say", True), ("Write", True)]
    assert returned["Say"]["stdout"] == ""
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("name", ["pylaunch_files", "pylaunch_command"])
def test_they_import_nothing_of_ansible(name: str) -> None:
    """Otherwise, a host compiles Ansible's library for modules each time."""
    source = (content.playbook("site").parent / "library" / f"{name}.py").read_text()
    assert "import ansible" not in source
    assert "from ansible" not in source


def test_messages_of_a_command_are_in_english() -> None:
    module = content.playbook("site").parent / "library" / "pylaunch_command.py"
    arguments = json.dumps({"argv": ["printenv", "LANGUAGE", "LC_ALL"], "_ansible_check_mode": False})
    text = module.read_text().replace("<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>", arguments)
    ran = subprocess.run(
        [sys.executable], input=text, env={**os.environ, "LANGUAGE": "de"}, stdout=subprocess.PIPE, text=True
    )
    assert json.loads(ran.stdout)["stdout"].splitlines() == ["C", "C.UTF-8"]
