"""Contract with Python's imports: a verb does not import what only other verbs need."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("verb", "absent"),
    [
        ("check", ("pylaunch.launch.start", "pylaunch.launch.follow.run_follower", "pylaunch.report", "jinja2")),
        ("gpus", ("pylaunch.launch.start", "pylaunch.launch.follow.run_follower", "pylaunch.report", "jinja2")),
        ("start", ("pylaunch.report.page", "jinja2", "ansible", "pylaunch.provision", "paramiko")),
    ],
)  # fmt: skip
def test_a_verb_imports_no_module_that_it_does_not_need(verb: str, absent: tuple[str, ...]) -> None:
    program = f"import sys, pylaunch.cli.commands.{verb}; print(*sys.modules, sep='\\n')"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert not set(absent) & set(ended.stdout.split())
