"""Drills on real nodes: faults of ranks and of nodes get the verdicts that they deserve, and leave nothing."""

import json
import os
import signal
import subprocess

from lab.lab import TOOL, Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import listed, must_be_clean
from tests.waiting import wait_until

PYTHON = ("--python", "/usr/bin/python3")


def test_faults_of_ranks_and_of_a_node_are_judged_rightly(lab: Lab) -> None:
    names = ("plain.nothing", "plain.raises", "plain.is_killed", "plain.power", "plain.agent")
    done = lab.tool("drill", "--lab", lab.spec.name, *PYTHON, "--seed", "1", "--json", *names, timeout_s=300)
    document = json.loads(done.stdout)
    assert [each["fault"] for each in document["drills"]] == list(names)
    assert [each["reason"] for each in document["drills"] if not each["right"]] == []
    assert done.returncode == ExitCode.DONE, done.stderr
    must_be_clean(lab)


def test_a_drill_without_its_program_is_skipped_and_says_why(lab: Lab) -> None:
    words = ("drill", "--lab", lab.spec.name, *PYTHON, "--library", "torch", "torch.nothing", "torch.raises")
    done = lab.tool(*words, timeout_s=300)
    assert done.returncode == ExitCode.JOB_FAILED
    assert "skipped  torch.raises" in done.stderr
    assert "No module named 'torch'" in done.stderr


def test_a_drill_whose_run_is_refused_is_skipped_with_the_reason(lab: Lab) -> None:
    words = ("drill", "--lab", lab.spec.name, "--python", "/nowhere/python", "--json", "plain.raises")
    done = lab.tool(*words, timeout_s=300)
    assert done.returncode == ExitCode.JOB_FAILED
    document = json.loads(done.stdout)
    assert document["drills"] == []
    assert [each["fault"] for each in document["skipped"]] == ["plain.raises"]
    assert "cannot take part" in document["skipped"][0]["reason"]


def test_hosts_that_are_no_lab_need_consent(lab: Lab) -> None:
    refused = lab.tool("drill", "-i", str(lab.inventory), *PYTHON, "plain.raises", timeout_s=120)
    assert refused.returncode == ExitCode.USAGE
    assert "--yes" in refused.stderr
    assert "fail or hang on purpose" in refused.stderr
    refused = lab.tool("drill", "-i", str(lab.inventory), *PYTHON, "--yes", "plain.power", timeout_s=120)
    assert refused.returncode == ExitCode.USAGE
    assert "plain.power: faults of nodes are injected into a lab only" in refused.stderr


def test_ctrl_c_ends_the_run_of_a_drill_and_the_drill(lab: Lab) -> None:
    words = ("drill", "--lab", lab.spec.name, *PYTHON, "plain.is_quiet", "plain.is_noisy")
    process = subprocess.Popen(
        (*TOOL, *words), env={**os.environ, **lab.environment}, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: any("is_quiet" in json.dumps(run) for run in listed(lab)), "its run is live")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == ExitCode.INTERRUPTED, stderr
    assert "plain.is_noisy" not in stderr
    must_be_clean(lab)
