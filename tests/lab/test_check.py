"""`pylaunch check` as a person uses it, and the checks that belong to a start."""

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.lab import Lab
from pylaunch.transport.process import Completed
from tests.lab import faults_core
from tests.lab.controller import must_be_clean

DIRECTORY = "/opt/story"
COMMAND = ("--workdir", DIRECTORY, "--framework", "command", "--", "cat", "base.yaml")


@pytest.fixture
def edited(lab: Lab) -> Iterator[Lab]:
    """A file that the command line names, with another content on n3."""
    for node in lab:
        node.write(f"{DIRECTORY}/base.yaml", "lr: 0.2\n" if node.name == "n3" else "lr: 0.1\n")
    yield lab
    for node in lab:
        node.run("rm", "-rf", DIRECTORY)


def check(lab: Lab, *arguments: str) -> Completed:
    return lab.pylaunch("check", "-i", str(lab.inventory), *arguments)


def test_findings_are_printed_worst_first_with_their_fix_and_counted(edited: Lab, tmp_path: Path) -> None:
    report = tmp_path / "check.xml"
    with faults_core.mounted("n2", "/dev/shm", "size=16m")(edited):
        output = check(edited, "--junit", str(report), *COMMAND)
    assert output.returncode == 3
    assert output.stdout.partition("note  ")[0].splitlines() == [
        "FAIL  n3: base.yaml differs, compared with n[1-2]  [code.files]",
        "      | --- n1:base.yaml",
        "      | +++ n3:base.yaml",
        "      | @@ -1 +1 @@",
        "      | -lr: 0.1",
        "      | +lr: 0.2",
        "      fix: copy the right /opt/story/base.yaml to n3",
        "warn  n2: /dev/shm holds 16 MiB, expected at least 256 MiB  [storage.shared_memory]",
        "      fix: mount -o remount,size=50% /dev/shm (in a container: --shm-size or --ipc=host)",
    ]
    assert "checks on 3 hosts in" in output.stderr
    assert ": 1 fail, 1 warning" in output.stderr
    assert ElementTree.parse(report).getroot().get("failures") == "1"


def test_only_what_was_asked_for_is_asked(edited: Lab) -> None:
    assert check(edited, "--skip", "code", *COMMAND).returncode == 0
    only = check(edited, "--only", "host.memory", *COMMAND)
    assert only.returncode == 0
    assert only.stderr.startswith("1 check on 3 hosts")


def test_a_start_whose_check_fails_is_refused_with_the_finding_and_no_rank_exists(edited: Lab) -> None:
    refused = edited.pylaunch("start", "-i", str(edited.inventory), *COMMAND)
    assert refused.returncode == 3
    assert "error: checks failed on 1 of 3 hosts, so no rank was started" in refused.stderr
    assert "n3: base.yaml differs, compared with n[1-2]  [code.files]" in refused.stderr
    assert "| +lr: 0.2" in refused.stderr
    assert "--skip code.files" in refused.stderr
    assert refused.stdout == ""
    must_be_clean(edited)


@pytest.mark.parametrize("flags", [("--skip", "code.files"), ("--no-check",)])
def test_a_start_goes_on_where_the_failing_check_is_not_asked(edited: Lab, flags: tuple[str, ...]) -> None:
    done = edited.pylaunch("start", "-i", str(edited.inventory), *flags, *COMMAND)
    assert done.returncode == 0
    assert "| lr: 0.2" in done.stdout


def test_a_start_says_what_it_is_warned_of_and_goes_on(lab: Lab) -> None:
    with faults_core.mounted("n2", "/dev/shm", "size=16m")(lab):
        done = lab.pylaunch("start", "-i", str(lab.inventory), "--workdir", "/", "--framework", "command", "--", "true")
    assert done.returncode == 0
    assert "warn  n2: /dev/shm holds 16 MiB" in done.stderr


def test_fix_runs_the_role_on_the_host_that_needs_it_and_checks_again(fresh_lab: Callable[..., Lab]) -> None:
    pair = fresh_lab(2)
    pair["n2"].write("/etc/security/limits.d/10-fault.conf", "root - nofile 256\n")
    before = check(pair)
    assert before.returncode == 3
    assert "a rank may have 256 files and sockets open" in before.stdout
    fixed = check(pair, "--fix", "--yes")
    assert "n2: host_baseline (for limits.files)" in fixed.stderr
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert "limits.files" not in fixed.stdout
    assert not pair["n1"].run("ls", "/etc/security/limits.d/90-pylaunch.conf", check=False).ok


def test_nothing_is_changed_when_nobody_agrees(lab: Lab) -> None:
    with faults_core.limited("n2", "- nofile 256")(lab):
        refused = check(lab, "--fix")
    assert refused.returncode != 0
    assert "n2: host_baseline (for limits.files)" in refused.stderr
    assert not lab["n2"].run("ls", "/etc/security/limits.d/90-pylaunch.conf", check=False).ok
