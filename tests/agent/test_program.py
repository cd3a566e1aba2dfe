"""Scripts for hosts do what they were built for, in a Python of their own."""

import json
import subprocess
import sys
from pathlib import Path

from pylaunch.agent.probe.readers.hosts import host as host_readers
from pylaunch.agent.probe.readers.hosts import occupants
from pylaunch.checks.mesh import READINGS
from pylaunch.checks.suite import CHECKS, _look, questions_for
from pylaunch.checks.survey import Wanted
from pylaunch.model.cluster import Host
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.program import FROM_STDIN, probe


def ran(words: tuple[str, ...], stdin: bytes) -> str:
    ended = subprocess.run([sys.executable, *words], input=stdin, capture_output=True, check=True, timeout=300)
    return ended.stdout.decode()


def test_arguments_arrive_as_they_were_passed() -> None:
    questions = host_readers.filesystem.ask({"path": '/proc/"it\'s"\n{user}'}, "odd 'label'")
    answer = ran(FROM_STDIN, probe(questions))
    assert '"filesystem' not in answer
    assert "odd 'label'" in answer
    assert '"mount": "/proc"' in answer


def test_what_readers_report_on_this_machine_has_the_types_that_they_declare(tmp_path: Path) -> None:
    """The controller decodes each value against the type of its reader: an odd one would be Unmeasured."""
    host = Host("n1", "10.0.0.1", devices=(0,))
    wanted = Wanted(
        str(tmp_path), (sys.executable, "x.py"), "x.py", 29500, {"n1": (0,)}, {"n1": sys.executable}, ("x.yaml",),
        "/tmp", peers={"n2": "127.0.0.1", "n3": "10.255.255.1"},
    )  # fmt: skip
    questions = questions_for(host, wanted, CHECKS)
    asked = {name: question for name, question in questions.items() if name not in READINGS}
    asked |= occupants.held.ask({"root": str(tmp_path), "devices": [0], "ports": [29500]})
    look = _look(json.loads(ran(FROM_STDIN, probe(asked))))
    assert look.readings.keys() == asked.keys()
    reasons = {name: each.reason for name, each in look.readings.items() if isinstance(each, Unmeasured)}
    assert not [reason for reason in reasons.values() if "not understood" in reason or "no such reader" in reason]
