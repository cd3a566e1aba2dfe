import json

import pytest

from pylaunch.model.cluster import Cluster, Host
from pylaunch.probe.ask import NoPython, Unreachable, interpret, parted
from pylaunch.transport.process import Completed

HOST = Host("n1", "10.0.0.1")


def ended(code: int, stdout: str = "", stderr: str = "") -> Completed:
    return Completed(("ssh",), code, stdout, stderr)


def test_output_of_the_login_before_the_answer_is_ignored() -> None:
    document = json.dumps({"hostname": "n1"})
    answer = interpret(HOST, ended(0, f"Welcome to n1!\n{document}\n"))
    assert answer == {"hostname": "n1"}


def test_a_host_without_the_interpreter_is_reported_as_such() -> None:
    assert interpret(HOST, ended(127, stderr="sh: 1: exec: /usr/bin/python3: not found")) == NoPython(
        "/usr/bin/python3"
    )


def test_a_probe_that_fails_is_reported_with_its_last_output() -> None:
    answer = interpret(HOST, ended(1, stderr="Traceback\nSyntaxError: invalid syntax"))
    assert isinstance(answer, Unreachable)
    assert "SyntaxError: invalid syntax" in answer.reason
    assert (answer.hint or "").startswith(f"/usr/bin/python3 of {HOST.name} must be Python 3.8 or newer")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (
            Host.agent_python,
            "install python3 on n1 (apt-get, or pylaunch provision), or set its pylaunch_agent_python",
        ),
        ("/opt/typo/python3", "correct pylaunch_agent_python or ansible_python_interpreter of n1 in the inventory"),
    ],
)
def test_provision_is_the_hint_only_for_an_interpreter_that_it_installs(path: str, hint: str) -> None:
    cluster = Cluster((Host("n1", "10.0.0.1", agent_python=path),))
    answered, unreachable = parted({"n1": NoPython(path)}, cluster)
    assert (answered, unreachable["n1"].reason, unreachable["n1"].hint) == ({}, f"no Python at {path}", hint)
