"""The Ansible module that imports nothing of Ansible, run by Ansible on this machine."""

from pathlib import Path

import pytest

from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.store import content
from pylaunch.transport.runner import PlaybookRun, run_playbook

HERE = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))
HOSTILE = '""" \'\'\' \\ \\" \n <<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>> größer 😀'

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Write
      pylaunch_files: {files: "{{ files }}"}
"""


@pytest.mark.parametrize("check", [False, True])
def test_arguments_arrive_as_they_are_and_check_mode_changes_nothing(tmp_path: Path, check: bool) -> None:
    playbook = tmp_path / "playbooks" / "test.yml"
    playbook.parent.mkdir()
    playbook.write_text(PLAY)
    (playbook.parent / "library").symlink_to(content.playbook("site").parent / "library")
    file = tmp_path / "file"
    files = [{"path": str(file), "content": HOSTILE, "mode": "0644"}]
    done = run_playbook(PlaybookRun(playbook, HERE, extra_vars={"files": files}, check=check))
    assert done.ok, done.failures
    assert done.returned["here"]["Write"]["changed"]
    assert (file.read_text() if file.exists() else None) == (None if check else HOSTILE)
