"""Scripts for hosts do what they were built for, in a Python of their own."""

from __future__ import annotations

import subprocess
import sys

from pylaunch.agent.piped import mesh
from pylaunch.agent.probe.readers import host
from pylaunch.probe.program import BEGUN, FROM_STDIN, STREAMED, probe, program, streamed


def ran(words: tuple[str, ...], stdin: bytes) -> str:
    ended = subprocess.run([sys.executable, *words], input=stdin, capture_output=True, check=True, timeout=60)
    return ended.stdout.decode()


def test_arguments_arrive_as_they_were_passed() -> None:
    questions = host.filesystem.ask({"path": '/proc/"it\'s"\n{user}'}, "odd 'label'")
    answer = ran(FROM_STDIN, probe(questions))
    assert '"filesystem' not in answer
    assert "odd 'label'" in answer
    assert '"mount": "/proc"' in answer


def test_a_streamed_script_leaves_the_rest_of_its_input_to_what_it_runs() -> None:
    question = b'{"name": "n1", "conversation": "c", "port": null}\n'
    answer = ran(STREAMED, streamed(program(mesh.main, BEGUN)) + question)
    assert '"listening"' in answer
