"""The Ansible module `manifest`, run by Ansible on this machine."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.store import content
from pylaunch.transport.runner import PlaybookRun, run_playbook

HERE = Cluster((Host("here", "127.0.0.1", Connection.LOCAL),))

PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - name: "{{ item.state }}"
      pylaunch.cluster.manifest: "{{ {'role': 'r', 'path': path} | combine(item) }}"
      loop: "{{ steps }}"
      ignore_errors: true
      register: done
    - ansible.builtin.copy: {content: "{{ done.results | to_json }}", dest: "{{ answers }}"}
      check_mode: false
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return tmp_path / "state" / "manifest.json"


def run(manifest: Path, *steps: dict[str, Any], check: bool = False) -> list[dict[str, Any]]:
    """Run the module once for each step; return its answers."""
    playbook = manifest.parents[1] / "playbooks" / "test.yml"
    playbook.parent.mkdir(exist_ok=True)
    playbook.write_text(PLAY)
    for name in ("galaxy.yml", "meta", "plugins", "roles"):
        link = playbook.parents[1] / name
        if not link.is_symlink():
            link.symlink_to(content.content_directory() / name)
    written = manifest.parents[1] / "answers.json"
    variables = {"steps": steps, "path": str(manifest), "answers": str(written)}
    assert run_playbook(PlaybookRun(playbook, HERE, extra_vars=variables, check=check)).ok
    answers: list[dict[str, Any]] = json.loads(written.read_text())
    return answers


def test_a_role_that_began_and_did_not_end_is_a_change_for_the_next_run(manifest: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one\n")
    begun, present = {"state": "begun"}, {"state": "present", "managed": {"file": [str(file)]}, "inputs": "d1"}
    answers = run(manifest, begun, present, begun, begun, present, begun)
    assert [each["changed"] for each in answers] == [False, False, False, True, False, False]
    (checked,) = run(manifest, begun, check=True)
    assert checked["changed"], "check mode says so, too"
    entry = json.loads(manifest.read_text())["roles"]["r"]
    assert (entry["inputs"], entry["unfinished"], list(entry["managed"]["file"])) == ("d1", True, [str(file)])
    run(manifest, {"state": "absent"})
    assert not manifest.exists()


def test_everybody_may_read_it_whatever_umask_the_host_has(manifest: Path) -> None:
    before = os.umask(0o077)
    try:
        run(manifest, {"state": "begun"})
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (manifest.parent, manifest)] == [0o755, 0o644]


def test_check_mode_writes_nothing(manifest: Path) -> None:
    run(manifest, {"state": "begun"}, {"state": "present"}, {"state": "absent"}, check=True)
    assert not manifest.parent.exists()


def test_the_digest_of_inputs_is_kept_without_a_new_one_while_the_state_is_the_same(manifest: Path) -> None:
    file = manifest.parents[1] / "file"
    file.write_text("one\n")
    recorded = {"state": "present", "managed": {"file": [str(file)]}}
    run(manifest, {**recorded, "inputs": "d1"}, recorded)
    assert json.loads(manifest.read_text())["roles"]["r"]["inputs"] == "d1"
    file.write_text("two\n")
    run(manifest, recorded)
    assert json.loads(manifest.read_text())["roles"]["r"]["inputs"] == ""


def test_something_else_in_the_place_of_a_file_is_an_error_and_not_recorded(manifest: Path, tmp_path: Path) -> None:
    occupied, missing = tmp_path / "occupied", tmp_path / "missing"
    occupied.mkdir()
    answers = run(manifest, *({"state": "present", "managed": {"file": [str(each)]}} for each in (occupied, missing)))
    assert f"{occupied} is not a file: a directory " in answers[0]["msg"]
    assert f"{missing} is not a file: missing" in answers[1]["msg"]
    assert not manifest.exists()
