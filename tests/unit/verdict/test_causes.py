"""The first cause of each evidence set, and properties that hold for all of them."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.protocol.node_evidence import HostEvidence
from pylaunch.store.content import signatures
from pylaunch.verdict.causes.cause_kinds import KINDS
from pylaunch.verdict.failure_evidence import Evidence
from pylaunch.verdict.verdict import Verdict, judge
from tests.unit.verdict.evidence_sets import RANKS, SETS, EvidenceSet, facts, left, own, states, victim

T = TypeVar("T")
LEVELS = tuple(Confidence)
CASES = st.sampled_from(SETS)


def verdict(evidence: Evidence) -> Verdict:
    found = judge(evidence)
    assert found is not None
    return found


@pytest.mark.parametrize("case", SETS, ids=lambda case: case.name)
def test_the_first_cause_is_the_right_one_and_no_victim_is_named(case: EvidenceSet) -> None:
    found = verdict(case.evidence)
    top = found.causes[0] if found.causes else None
    assert (None if top is None else top.kind) == case.kind, found
    assert (None if top is None else top.confidence.value) == case.confidence
    assert found.named == case.named
    victims = {(end.host, end.rank) for end in case.ends if end.symptom}
    named = {found.named, *(cause.named for cause in found.causes)}
    assert not victims & {(each.host, each.rank) for each in named if each is not None}


OF_TEXTS = {"start-failed", "address-wrong", "fabric", "ssh-failed", "processor", "unexplained"}
"""Kinds that only texts show: no end of a rank and no fact of a host leads to them."""


def test_every_kind_of_a_text_has_a_class() -> None:
    assert {each.kind for each in signatures().causes.values()} >= OF_TEXTS


def test_every_kind_has_a_set() -> None:
    assert {each.kind for each in SETS if each.kind is not None} == set(KINDS) - OF_TEXTS


@given(CASES, st.randoms())
def test_the_order_of_reports_changes_nothing(case: EvidenceSet, random: Random) -> None:
    evidence = case.evidence

    def shuffled(mapping: Mapping[str, T]) -> dict[str, T]:
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    ends, hosts = list(evidence.ends), list(evidence.hosts)
    random.shuffle(ends)
    random.shuffle(hosts)
    other = replace(
        evidence, ends=tuple(ends), hosts=tuple(hosts), states=shuffled(evidence.states),
        lost=shuffled(evidence.lost), ranks=shuffled(evidence.ranks),
    )  # fmt: skip
    assert verdict(other) == verdict(evidence)


@given(CASES, st.data())
def test_less_evidence_is_never_more_certain(case: EvidenceSet, data: st.DataObject) -> None:
    """The report of a host, a fact, an end or a result that is missing cannot make the first cause more certain."""
    whole = case.evidence
    less = _without_one(whole, data)
    before, after = verdict(whole), judge(less)
    if after is not None and after.causes:
        best = LEVELS.index(before.causes[0].confidence) if before.causes else len(LEVELS)
        assert LEVELS.index(after.causes[0].confidence) >= min(best, LEVELS.index(Confidence.LOW))


def _poorer(evidence: Evidence, poor: HostEvidence, **less: Any) -> Evidence:
    hosts = tuple(replace(each, **less) if each is poor else each for each in evidence.hosts)
    return replace(evidence, hosts=hosts)


def _without_one(evidence: Evidence, data: st.DataObject) -> Evidence:
    wholes = {
        "ends": [replace(evidence, ends=tuple(e for e in evidence.ends if e is not end)) for end in evidence.ends],
        "states": [
            replace(evidence, states={host: each for host, each in evidence.states.items() if host != gone})
            for gone in evidence.states
        ],
        "hosts": [
            replace(evidence, hosts=tuple(each for each in evidence.hosts if each is not gone))
            for gone in evidence.hosts
            if not gone.clock_step_s  # Times of a clock that was set unseen are wrong without a trace.
        ],
        "kernel": [_poorer(evidence, each, kernel=()) for each in evidence.hosts],
        "connections": [_poorer(evidence, each, stuck=()) for each in evidence.hosts],
        "views": [
            replace(evidence, views=tuple(each for each in evidence.views if each is not gone))
            for gone in evidence.views
        ],
        "findings": [replace(evidence, findings=())],
        "lost": [replace(evidence, lost={})] if evidence.lost else [],
    }
    return data.draw(st.sampled_from([each for found in wholes.values() for each in found]))


@given(st.permutations(range(3)), st.sampled_from([0.0, 0.05, 0.5, 5.0]))
def test_whoever_is_a_victim_is_never_named(order: list[int], later_s: float) -> None:
    """Any two ranks are victims, the third exits early, fails later, or has not ended."""
    guilty, *others = order
    effects = tuple(victim(rank, 100.0 + number) for number, rank in enumerate(others))
    for end in (left(guilty), own(guilty, 100.0 + later_s, "ValueError: x")):
        found = judge(Evidence({f"n{rank + 1}": frozenset({rank}) for rank in range(3)}, (*effects, end)))
        assert found is not None
        assert found.named is None or found.named.rank == guilty


def test_an_address_that_two_hosts_claim_accuses_nobody() -> None:
    """A host can report the address of another one."""
    case = next(each for each in SETS if each.name == "link down, connections stuck")
    liar = replace(facts("n3"), addresses=("10.0.0.3", "10.0.0.2"))
    hosts = tuple(liar if each.host == "n3" else each for each in case.evidence.hosts)
    found = verdict(replace(case.evidence, hosts=hosts))
    assert (found.named, found.causes[0].confidence) == (None, Confidence.LOW)


@pytest.mark.parametrize("case", [each for each in SETS if each.hosts], ids=lambda case: case.name)
def test_a_host_can_accuse_no_other_host(case: EvidenceSet) -> None:
    """The facts of a host are what it says: alone, they name at most that host."""
    victims = (victim(0), victim(1, 100.1), victim(2, 100.2))
    for host in {each.host for each in case.hosts}:
        mine = [each for each in case.hosts if each.host == host]
        others = [facts(name) for name in RANKS if name not in {each.host for each in mine}]
        found = verdict(Evidence(RANKS, victims, states(), hosts=(*mine, *others)))
        assert found.named is None or found.named.host == host
