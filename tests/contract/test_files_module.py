"""The Ansible module that writes the files of several roles, run on this machine as Ansible runs it on a host."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MODULE = Path(__file__).parents[2] / "playbooks/library/pylaunch_files.py"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the files belong to root")


def ask(*, check: bool = False, **wanted: object) -> dict[str, Any]:
    """Run the module, and return its answer."""
    arguments = json.dumps({**wanted, "_ansible_check_mode": check})
    text = MODULE.read_text().replace("<<INCLUDE_ANSIBLE_MODULE_JSON_ARGS>>", arguments)
    ran = subprocess.run([sys.executable], input=text.encode(), stdout=subprocess.PIPE)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def write(files: dict[Path, str], *, check: bool = False, **more: object) -> dict[str, Any]:
    """Write files of root."""
    wanted = [{"path": str(path), "content": content, "mode": "0640"} for path, content in files.items()]
    return ask(files=wanted, check=check, **more)


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
    assert refused["msg"] == f"cannot change {occupied}: is a directory"
    assert (occupied / "of-somebody-else").is_dir()
    assert other.read_text() == "text\n"


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_text("of others\n")
    link.symlink_to(target)
    assert write({link: "ours\n"})["paths"] == [str(link)]
    assert (link.is_symlink(), link.read_text(), target.read_text()) == (False, "ours\n", "of others\n")


BLOCK = {"marker": "# {mark} ours", "content": "10.0.0.1\t@hostname@\n"}


def test_a_block_is_put_at_the_end_changed_in_its_place_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_bytes(b"of others \xff")
    file.chmod(0o600)
    block = {**BLOCK, "path": str(file)}
    assert ask(blocks=[block])["changed"]
    inner = f"# BEGIN ours\n10.0.0.1\t{os.uname().nodename}\n# END ours\n".encode()
    assert file.read_bytes() == b"of others \xff\n" + inner
    assert ask(blocks=[block])["changed"] is False
    file.write_bytes(file.read_bytes() + b"after\n")
    assert ask(blocks=[{**block, "content": "one\n\ntwo"}])["changed"]
    assert file.read_bytes() == b"of others \xff\n# BEGIN ours\none\n\ntwo\n# END ours\nafter\n"
    assert ask(blocks=[{**block, "content": ""}])["changed"]
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"of others \xff\nafter\n", 0o600)
    assert ask(blocks=[{**block, "content": ""}])["changed"] is False


@pytest.fixture
def home() -> Iterator[Path]:
    """Directory of the user nobody, which that user can reach."""
    with tempfile.TemporaryDirectory() as path:
        shutil.chown(path, "nobody", "nogroup")
        yield Path(path)


def test_a_block_of_a_user_is_in_a_file_and_a_directory_of_that_user(home: Path) -> None:
    file = home / ".ssh" / "authorized_keys"
    block = {**BLOCK, "path": str(file), "owner": "nobody", "mode": "0600", "directory_mode": "0700"}
    assert ask(blocks=[block])["paths"] == [str(file.parent), str(file)]
    made = {path: (path.owner(), path.stat().st_mode & 0o777) for path in (file.parent, file)}
    assert made == {file.parent: ("nobody", 0o700), file: ("nobody", 0o600)}
    refused = ask(blocks=[{**block, "owner": "nobody-of-that-name"}])
    assert (refused["failed"], str(file) in refused["msg"]) == (True, True)


def test_lines_and_paths_are_removed_and_a_directory_only_if_it_is_empty(tmp_path: Path) -> None:
    file, tree, kept = tmp_path / "file", tmp_path / "tree", tmp_path / "kept"
    file.write_text("127.0.0.1 a\n127.0.1.1 b\nlast")
    for directory in (tree, kept, tmp_path / "empty"):
        directory.mkdir()
    (tree / "within").touch()
    (kept / "of-others").touch()
    wanted: dict[str, Any] = {
        "absent_lines": [{"path": str(file), "regexp": r"^127\.0\.1\.1\s"}],
        "absent_paths": [str(tree), str(tmp_path / "never-was")],
        "absent_if_empty": [str(kept), str(tmp_path / "empty")],
    }
    assert ask(check=True, **wanted)["paths"] == [str(file), str(tree)] == ask(**wanted)["paths"]
    assert file.read_text() == "127.0.0.1 a\nlast"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "kept"]


def test_a_mount_is_written_in_place(tmp_path: Path) -> None:
    """As /etc/hosts of a container, which nothing can replace."""
    of_others, mount = tmp_path / "of-others", tmp_path / "mount"
    of_others.write_text("first\n")
    mount.touch()
    if subprocess.run(["mount", "--bind", of_others, mount], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("cannot mount here")
    try:
        assert ask(blocks=[{**BLOCK, "path": str(mount)}])["changed"]
    finally:
        subprocess.run(["umount", mount], check=True)
    assert of_others.read_text().startswith("first\n# BEGIN ours\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mount", "of-others"]


def test_a_mark_is_made_before_a_change_and_is_a_change_the_next_time(tmp_path: Path) -> None:
    mark, file = tmp_path / "mark", tmp_path / "file"
    tmp_path.chmod(0o755)
    assert write({file: "text\n"}, check=True, mark=str(mark))["is_marked"] is False
    assert write({file: "text\n"}, mark=str(mark))["is_marked"]
    again = write({file: "text\n"}, mark=str(mark))
    assert (again["paths"], again["changed"], again["is_marked"]) == ([], True, True)
    mark.rmdir()
    done = write({file: "text\n"}, mark=str(mark))
    assert (done["changed"], done["is_marked"]) == (False, False)


def test_what_it_reports_restores_what_was_there(tmp_path: Path) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    there.write_text("old\n")
    there.chmod(0o604)
    written = write({there: "text\n", new: "text\n"})
    assert ask(files=written["replaced"], absent_paths=written["created"])["changed"]
    assert (there.read_text(), there.stat().st_mode & 0o777, new.exists()) == ("old\n", 0o604, False)


def test_a_file_is_only_for_hosts_that_have_the_path_or_lack_the_capability(tmp_path: Path) -> None:
    bounding = int(re.findall(r"CapBnd:\s*(\w+)", Path("/proc/1/status").read_text())[0], 16)
    files = [
        {"path": str(tmp_path / "a"), "content": "", "mode": "0644", "only_where": str(tmp_path)},
        {"path": str(tmp_path / "b"), "content": "", "mode": "0644", "only_where": "/nowhere"},
        {"path": str(tmp_path / "c"), "content": "", "mode": "0644", "only_without_capability": "CAP_SYS_TIME"},
    ]
    ask(files=files)
    assert sorted(path.name for path in tmp_path.iterdir()) == (["a"] if bounding >> 25 & 1 else ["a", "c"])


@pytest.mark.parametrize("link", [".ssh", ".ssh/keys"])
def test_a_link_of_a_user_leads_to_no_file_that_the_user_may_not_write(link: str, home: Path, tmp_path: Path) -> None:
    foreign = Path(tempfile.mkdtemp(dir=tmp_path.parents[2]))
    foreign.chmod(0o755)
    (foreign / "keys").write_text("of root\n")
    if link != ".ssh":
        (home / ".ssh").mkdir()
        shutil.chown(home / ".ssh", "nobody", "nogroup")
    (home / link).symlink_to(foreign if link == ".ssh" else foreign / "keys")
    before = {path: (path.stat().st_uid, path.stat().st_mode) for path in (foreign, foreign / "keys")}
    block = {**BLOCK, "path": str(home / ".ssh/keys"), "owner": "nobody", "mode": "0600", "directory_mode": "0700"}
    assert ask(blocks=[block])["failed"]
    assert (foreign / "keys").read_text() == "of root\n"
    assert {path: (path.stat().st_uid, path.stat().st_mode) for path in before} == before
    shutil.rmtree(foreign)


def test_a_block_that_is_not_there_is_removed_without_a_change_of_its_file(home: Path) -> None:
    file = home / ".ssh" / "authorized_keys"
    file.parent.mkdir()
    file.write_text("ssh-ed25519 AAAA of the user\n")
    file.chmod(0o644)
    block = {**BLOCK, "path": str(file), "content": "", "owner": "nobody", "mode": "", "directory_mode": ""}
    absent = {**block, "path": "/home/gone/.ssh/authorized_keys", "owner": "nobody-of-that-name"}
    answer = ask(blocks=[block, absent])
    assert (answer["changed"], "msg" in answer, file.stat().st_mode & 0o777) == (False, False, 0o644)


def test_a_directory_of_root_in_the_home_of_a_user_is_named(home: Path) -> None:
    (home / ".ssh").mkdir()
    block = {**BLOCK, "path": str(home / ".ssh/keys"), "owner": "nobody", "mode": "0600", "directory_mode": "0700"}
    assert f"{home}/.ssh belongs to uid 0, not to 6" in ask(blocks=[block])["msg"]
