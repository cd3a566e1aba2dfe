"""`pylaunch check --fix`: a repair by a role."""

from collections.abc import Callable

from lab.lab import Lab
from pylaunch.transport.process import Completed


def check(lab: Lab, *arguments: str) -> Completed:
    return lab.pylaunch("check", "-i", str(lab.inventory), *arguments)


def test_fix_asks_and_runs_the_role_on_the_host_that_needs_it_and_checks_again(fresh_lab: Callable[..., Lab]) -> None:
    pair = fresh_lab(2)
    pair["n2"].write("/etc/security/limits.d/10-fault.conf", "root - nofile 256\n")
    before = check(pair)
    assert before.returncode == 3
    assert "a rank may have 256 files and sockets open" in before.stdout
    assert check(pair, "--fix").returncode != 0, "nobody agrees"
    assert not pair["n2"].run("ls", "/etc/security/limits.d/90-pylaunch.conf", check=False).ok
    fixed = check(pair, "--fix", "--yes")
    assert "n2: host_baseline (for limits.files)" in fixed.stderr
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert "limits.files" not in fixed.stdout
    assert not pair["n1"].run("ls", "/etc/security/limits.d/90-pylaunch.conf", check=False).ok
