"""Contract with Python's imports: a verb does not import what only other verbs need."""

import subprocess
import sys

import pytest

ANSIBLE = ("ansible", "ansible_runner")
RUN_AND_REPORT = (
    "pylaunch.runs.prepare", "pylaunch.runs.follow.run_follower", "pylaunch.features.report.page", "jinja2", *ANSIBLE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("commands.prepare.check", ("pylaunch.features.report.page", "jinja2", *ANSIBLE)),
        ("commands.watch.gpus", RUN_AND_REPORT),
        ("commands.run.start", ("pylaunch.runs.start", "pylaunch.runs.prepare.session", *ANSIBLE)),
        *((f"commands.{verb}", ANSIBLE) for verb in ("watch.status", "watch.ps", "watch.logs", "run.stop")),
        ("planning", ("pylaunch.features.report.page.html", "jinja2", "ansible", "pylaunch.provision", "paramiko")),
    ],
)  # fmt: skip
def test_a_verb_imports_no_module_that_it_does_not_need(module: str, absent: tuple[str, ...]) -> None:
    program = f"import sys, pylaunch.cli.{module}; print(*sys.modules, sep='\\n')"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert not set(absent) & set(ended.stdout.split())


def test_the_agent_is_packed_without_importing_what_is_packed() -> None:
    program = "import sys; from pylaunch.runs.prepare import archive; archive.build(); print(*sys.modules, sep='\\n')"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert "pylaunch.runtime" not in ended.stdout.split()
