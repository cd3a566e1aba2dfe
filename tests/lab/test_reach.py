"""A host that cannot be reached is reported with every step that was tried on the way to it."""

import json

import pytest

from lab.lab import Lab
from tests.lab.faults_network import FAULTS


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
