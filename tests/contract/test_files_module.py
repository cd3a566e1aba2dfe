"""The Ansible module that writes the files of several roles, run on this machine as Ansible runs it on a host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODULE = Path(__file__).parents[2] / "playbooks/library/pylaunch_files.py"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the files belong to root")


def write(files: dict[Path, str], *, check: bool = False) -> dict[str, Any]:
    """Run the module, and return its answer."""
    wanted = [{"path": str(path), "content": content, "mode": "0640"} for path, content in files.items()]
    arguments = {"ANSIBLE_MODULE_ARGS": {"files": wanted, "_ansible_check_mode": check}}
    ran = subprocess.run([sys.executable, str(MODULE)], input=json.dumps(arguments).encode(), stdout=subprocess.PIPE)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_files_get_content_mode_and_directories_once(tmp_path: Path) -> None:
    first, second = tmp_path / "new" / "below" / "first", tmp_path / "second"
    second.write_text("old\n")
    tmp_path.chmod(0o777)
    tmp_path.parent.chmod(0o701)
    wanted = {first: "größer\n", second: "new\n"}
    written = write(wanted)
    assert written["paths"] == [str(path) for path in (first.parents[1], first.parent, first, tmp_path, second)]
    assert {path: path.read_text() for path in wanted} == wanted
    assert {path.stat().st_mode & 0o777 for path in wanted} == {0o640}
    assert first.parent.stat().st_mode & 0o777 == 0o755
    assert tmp_path.stat().st_mode & 0o777 == 0o755, "nobody else may replace a file of the role"
    assert tmp_path.parent.stat().st_mode & 0o777 == 0o701, "a directory above keeps its mode"
    assert (again := write(wanted))["changed"] is False, again


def test_a_mode_or_an_owner_that_differs_is_changed_without_writing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write({file: "text\n"})
    before = file.stat().st_ino
    file.chmod(0o666)
    os.chown(file, 12345, 12345)
    assert write({file: "text\n"})["paths"] == [str(file)]
    status = file.stat()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid, status.st_ino) == (0o640, 0, 0, before)


def test_check_mode_says_what_would_change_and_changes_nothing(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    there, new = tmp_path / "there", tmp_path / "directory" / "new"
    there.write_text("old\n")
    asked = write({there: "new\n", new: "new\n"}, check=True)
    assert asked["paths"] == [str(there), str(new.parent), str(new)]
    assert [(each["before"], each["after"]) for each in asked["diff"]] == [("old\n", "new\n"), ("", "new\n")]
    assert there.read_text() == "old\n"
    assert not new.parent.exists()


def test_a_file_that_cannot_be_written_is_named_and_the_others_are_written(tmp_path: Path) -> None:
    """A directory in the place of a file: nobody knows what is in it."""
    occupied, other = tmp_path / "occupied", tmp_path / "other"
    (occupied / "of-somebody-else").mkdir(parents=True)
    refused = write({occupied: "text\n", other: "text\n"})
    assert refused["failed"]
    assert refused["msg"] == f"cannot write {occupied}: is a directory"
    assert (occupied / "of-somebody-else").is_dir()
    assert other.read_text() == "text\n"


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("of others\n")
    link.symlink_to(target)
    assert write({link: "ours\n"})["paths"] == [str(link)]
    assert (link.is_symlink(), link.read_text(), target.read_text()) == (False, "ours\n", "of others\n")
