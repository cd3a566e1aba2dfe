"""Drills on real nodes: faults of ranks and of nodes get the verdicts that they deserve, and leave nothing."""

import json

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import must_be_clean

PYTHON = ("--python", "/usr/bin/python3")


def test_faults_of_ranks_and_of_a_node_are_judged_rightly(lab: Lab) -> None:
    names = ("plain.nothing", "plain.raises", "plain.is_killed", "plain.power", "plain.agent")
    done = lab.tool("drill", "--lab", lab.spec.name, *PYTHON, "--seed", "1", "--json", *names, timeout_s=300)
    document = json.loads(done.stdout)
    assert [each["fault"] for each in document["drills"]] == list(names)
    assert [each["reason"] for each in document["drills"] if not each["right"]] == []
    assert done.returncode == ExitCode.DONE, done.stderr
    must_be_clean(lab)


def test_hosts_that_are_no_lab_need_consent(lab: Lab) -> None:
    refused = lab.tool("drill", "-i", str(lab.inventory), *PYTHON, "plain.raises", timeout_s=120)
    assert refused.returncode == ExitCode.USAGE
    assert "--yes" in refused.stderr
    assert "fail or hang on purpose" in refused.stderr
    refused = lab.tool("drill", "-i", str(lab.inventory), *PYTHON, "--yes", "plain.power", timeout_s=120)
    assert refused.returncode == ExitCode.USAGE
    assert "plain.power: faults of nodes are injected into a lab only" in refused.stderr
