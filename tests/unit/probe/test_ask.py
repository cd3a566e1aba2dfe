from __future__ import annotations

import json

from pylaunch.model.cluster import Host
from pylaunch.probe.ask import NoPython, Unreachable, interpret
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
    assert answer.hint == "/usr/bin/python3 must be Python 3.8 or newer"
