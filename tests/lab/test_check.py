"""`pylaunch check`: a repair by a role, and the steps to a host that cannot be reached."""

import json
from collections.abc import Callable

import pytest

from lab.lab import Lab
from pylaunch.transport.process import Completed
from tests.lab.faults_network import FAULTS


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


@pytest.mark.parametrize(
    ("fault", "steps"),
    [
        ("no SSH server", ["tcp: {address} port 22: Connection refused"]),
        (
            "key not accepted",
            [
                "tcp: {address} port 22 accepts connections",
                "server: SSH-2.0-OpenSSH",
                "as in known_hosts",
                "login: the server accepts publickey",
                "login: offered {key} ED25519 SHA256:",
            ],
        ),
        ("host key changed", ["host key: shows ssh-ed25519 SHA256:", "host key: known_hosts has ssh-ed25519 SHA256:"]),
    ],
)
def test_the_steps_to_a_host_are_printed_up_to_the_one_that_fails(lab: Lab, fault: str, steps: list[str]) -> None:
    (case,) = [case for case in FAULTS if case.name == fault]
    with case.inject(lab):
        check = lab.pylaunch("check", "-i", str(lab.inventory), "--limit", "n2", "--only", "reach.host", "--json")
    (finding,) = json.loads(check.stdout)["findings"]
    assert finding["check"] == "reach.host"
    reported = "\n".join(finding["evidence"])
    for step in steps:
        assert step.format(address=lab["n2"].address, key=lab.spec.paths.key) in reported
