"""Recorded logs varied: without the text that decides, or with texts of victims, no other cause is named as sure."""

from collections.abc import Iterator
from typing import Any

import pytest

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.store.content import signature_sources, signatures
from pylaunch.verdict.logs.judgement import ABSTAINING
from pylaunch.verdict.logs.signature import Role
from tests.features.explain.judgement.recorded import recorded
from tests.features.explain.judgement.verdicts import verdict_on

SETTLED = recorded("logs")
HEALTHY = recorded("healthy_logs.toml")
UNRELATED = """\
Traceback (most recent call last):
  File "/app/train.py", line 31, in <module>
    orbit(plan)
OrbitError: the seventh plan has no perihelion
"""
VICTIMS = {
    "a lost connection": """\
Traceback (most recent call last):
  File "/app/train.py", line 31, in <module>
    main()
ConnectionResetError: [Errno 104] Connection reset by peer
""",
    "ends of the launcher and of Slurm": """\
W1124 10:00:00.100000 71 api.py:900] Sending process 71 closing signal SIGTERM
E1124 10:00:00.200000 71 api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 81) of binary: /usr/bin/python
slurmstepd: error: *** STEP 71.0 ON n1 CANCELLED AT 2026-11-24T10:00:00 ***
""",
}


def sure_causes(log: str) -> Iterator[str]:
    """The cause that is named first, if its confidence is high."""
    first = verdict_on(log).first
    if first is not None and first.cause.id not in ABSTAINING and first.confidence is Confidence.HIGH:
        yield first.cause.id


def text_of(case: dict[str, Any]) -> str:
    return str(case["text"]).rstrip("\n") + "\n"


def test_without_the_lines_that_decide_no_other_cause_is_sure() -> None:
    wrong = {}
    for name, case in SETTLED.items():
        log = text_of(case)
        first = None if log.count("\n") == 1 else verdict_on(log).first
        if first is None:
            continue
        decides = {line.line for line in first.evidence}
        rest = "\n".join(line for number, line in enumerate(log.split("\n"), 1) if number not in decides)
        if others := set(sure_causes(rest)) - {case.get("cause"), *case.get("also", ())}:
            wrong[name] = others
    assert wrong == {}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_healthy_log_that_ends_as_a_victim_has_no_sure_cause(victim: str) -> None:
    wrong = {
        name: found for name, case in HEALTHY.items() if (found := [*sure_causes(text_of(case) + VICTIMS[victim])])
    }
    assert wrong == {}


def test_a_failure_of_its_own_is_not_explained_by_a_warning_before_it() -> None:
    quiet = (Role.WARNING, Role.CONTEXT, Role.BENIGN)
    logs = {
        each.id: f"{signature_sources()[each.id].example}\n"
        for each in signatures().signatures.values()
        if each.role in quiet
    }
    logs |= {name: text_of(case) for name, case in HEALTHY.items()}
    named = {name: verdict_on(log + UNRELATED).first for name, log in logs.items()}
    assert {name: cause for name, cause in named.items() if cause is None or cause.signature != "exception"} == {}
