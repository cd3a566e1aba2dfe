"""Every fault is found by its check, on its hosts, and by nobody else; a healthy cluster gives no finding."""

from collections.abc import Iterator

import pytest

from lab.lab import Lab
from tests.lab import faults_core
from tests.lab.fault_case import Case
from tests.lab.fault_matrix import FAULTS, check, look


@pytest.fixture(scope="module")
def job(lab: Lab) -> Iterator[Lab]:
    """The shared lab with the job that is checked for; healthy before the first fault and after the last."""
    with faults_core.prepared(lab):
        faults_core.relogin(lab)
        assert check(lab) == ()
        yield lab
        assert check(lab) == ()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in FAULTS])
def test_a_fault_is_found_where_it_is_and_nowhere_else(job: Lab, case: Case) -> None:
    seen = look(job, case)
    assert seen.reported == seen.expected, seen.findings


def test_names_of_faults_are_unique_and_there_are_enough() -> None:
    assert len({case.name for case in FAULTS}) == len(FAULTS) >= 30
