"""The script that finds the agent on a node: nothing that another user could have put there is executed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pylaunch import protocol
from pylaunch.model.text.argv import quoted
from pylaunch.runs.connect.agent_link import (
    AGENT_ABSENT,
    AGENTS_DAMAGED,
    ENTER,
    PYTHON_ABSENT,
    ROOT_UNTRUSTED,
    RUNS,
)
from pylaunch.runs.prepare import launch

VERSION = launch.build().version


@pytest.fixture
def root(tmp_path: Path, agent_archive: Path) -> Path:
    root = tmp_path / "a root; 'of' ours $x"
    (root / "agents").mkdir(parents=True)
    root.chmod(0o700)
    shutil.copy(agent_archive, root / "agents" / f"{VERSION}.pyz")
    return root


def run(script: str, root: Path, *more: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    words = ["/bin/sh", "-c", script, "sh", str(root), "", "", python, *more]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def enter(root: Path) -> subprocess.CompletedProcess[str]:
    return run(ENTER, root, VERSION, "attach", "r1")


def test_an_agent_that_is_whole_in_a_root_of_ours_answers(root: Path) -> None:
    answer = protocol.decode(enter(root).stdout.encode())
    assert (type(answer), answer.code) == (protocol.Failed, protocol.NO_RUN)
    assert json.loads(run(RUNS, root).stdout) == []


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_a_login_shell_without_a_path_makes_no_trap_of_a_root_of_ours(
    path: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    assert run(RUNS, root).stdout == "[]\n"


@pytest.mark.parametrize("script", [ENTER, RUNS])
def test_a_login_shell_that_is_csh_can_pass_the_script_on(script: str) -> None:
    assert "\n" not in script  # csh: Unmatched '\''.
    if (csh := shutil.which("csh") or shutil.which("tcsh")) is not None:
        line = quoted(("/bin/sh", "-c", script, "sh", "", "/nowhere", "", "/no/python"))
        ended = subprocess.run([csh, "-c", f"exec {line}"], capture_output=True, text=True, check=False, timeout=60)
        assert (ended.returncode, ended.stderr) == (PYTHON_ABSENT, "")


def test_the_user_id_takes_its_place_in_the_name_of_the_root(root: Path) -> None:
    placed = root.with_name(f"root-{os.getuid()}-x")
    root.rename(placed)
    words = ["/bin/sh", "-c", RUNS, "sh", f"{root.parent}/root-", "-x", "user", sys.executable]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("mend", ["a byte", "a link", "a directory", "nothing"])
def test_an_archive_that_has_not_the_content_of_its_name_is_absent_and_never_executed(mend: str, root: Path) -> None:
    path = root / "agents" / f"{VERSION}.pyz"
    content = path.read_bytes()
    path.unlink()
    if mend == "a byte":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif mend == "a link":
        (root / "elsewhere").write_bytes(content)
        path.symlink_to(root / "elsewhere")
    elif mend == "a directory":
        path.mkdir()
        (path / "__main__.py").write_text("print('executed')")
    ended = enter(root)
    assert (ended.returncode, ended.stdout) == (AGENT_ABSENT, "")


def test_the_newest_agent_that_is_whole_reports_the_runs(root: Path) -> None:
    for number, name in enumerate(("0123456789abcdef.pyz", ".pyz", "x.pyz", "notes")):
        path = root / "agents" / name
        path.write_text("print('executed')")
        os.utime(path, (time.time() + number, time.time() + number))
    assert run(RUNS, root).stdout == "[]\n"
    (root / "agents" / f"{VERSION}.pyz").unlink()
    assert run(RUNS, root).returncode == AGENTS_DAMAGED


def test_a_missing_agent_is_reported_as_absent(root: Path, tmp_path: Path) -> None:
    assert enter(tmp_path / "absent").returncode == run(RUNS, tmp_path / "absent").returncode == AGENT_ABSENT
    assert run(ENTER, root, VERSION, "attach", "r1", python="/no/python").returncode == PYTHON_ABSENT
    shutil.rmtree(root / "agents")
    assert enter(root).returncode == run(RUNS, root).returncode == AGENT_ABSENT


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o1777])
def test_nothing_in_a_root_that_is_open_to_others_is_executed(mode: int, root: Path) -> None:
    root.chmod(mode)
    assert enter(root).returncode == run(RUNS, root).returncode == ROOT_UNTRUSTED


def test_nothing_behind_a_link_in_the_place_of_the_root_is_executed(root: Path, tmp_path: Path) -> None:
    for link, target in ((tmp_path / "link", root), (tmp_path / "dangling", tmp_path / "absent")):
        link.symlink_to(target)
        assert enter(link).returncode == run(RUNS, link).returncode == ROOT_UNTRUSTED


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_nothing_in_a_root_that_another_user_has_made_is_executed(root: Path) -> None:
    os.chown(root, 65534, 65534)
    assert enter(root).returncode == run(RUNS, root).returncode == ROOT_UNTRUSTED
