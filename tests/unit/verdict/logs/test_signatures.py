"""The data of the signatures: every pattern is exact, linear and finds its own example."""

import re
import time
from pathlib import Path

import pytest

from pylaunch.agent.evidence.symptoms import TABLE
from pylaunch.store.content import signature_sources, signatures
from pylaunch.verdict.logs.signature import Role, parse_catalogue, parse_sources
from tests.unit.verdict.logs.judged import cause_in, scanned

CATALOGUE = signatures()
SOURCES = signature_sources()
EVERY = [*CATALOGUE.signatures.values()]


def test_a_signature_finds_its_example_in_a_log() -> None:
    found = {each: scanned(SOURCES[each.id].example).matches for each in EVERY}
    assert [each.id for each in EVERY if each.id not in [match.signature.id for match in found[each]]] == []


CLASS = re.compile(r"\[(?:[^\]\\]|\\.)+\]")
UNBOUNDED = re.compile(r"(?:(?<!\\)\.|\\[SWwds]|\]|(?<!\\)\))(?:\*|\+|\{\d+,\})")


def test_no_repetition_of_a_pattern_is_unbounded() -> None:
    assert [each.id for each in EVERY if UNBOUNDED.search(CLASS.sub("[]", each.expression))] == []


def test_a_pattern_takes_milliseconds_on_the_longest_line() -> None:
    for each in EVERY:
        example = SOURCES[each.id].example
        lines = [(example + " ") * 40, example[:-3] * 60, each.anchors[0] * 400]
        lines += [each.anchors[0] + filler * 3900 for filler in ("a", " ", "1", ":", "(", "'")]
        pattern = each.pattern  # It is compiled before the clock runs.
        for line in lines:
            began = time.process_time()
            pattern.search(line[:8000])
            assert time.process_time() - began < 0.25, (each.id, line[:80])


REFERENCE = Path(__file__).parents[4] / "docs" / "reference"


def test_a_signature_names_where_its_text_is_from() -> None:
    assert SOURCES.keys() == CATALOGUE.signatures.keys()
    assert [id for id, each in SOURCES.items() if not each.sources] == []
    own = {source for each in SOURCES.values() for source in each.sources if not source.startswith("https://")}
    assert [each for each in own if not each.endswith(".md") or not (REFERENCE / each).exists()] == []


def test_every_class_of_causes_can_be_reached() -> None:
    from_signatures = {cause.id for each in EVERY for cause in (each.cause, *each.also) if cause is not None}
    from_signatures |= {cause.id for each in EVERY for case in each.cases for cause in (case.cause, *case.also)}
    # Readings of several facts, and words of logs.
    from_elsewhere = {
        "container-network", "app-hardcoded-port", "rank0-long-work", "uneven-data", "gpu-memory-fragmented",
        "rank-silent-end", "ulimit-stack",
    }  # fmt: skip
    assert set(CATALOGUE.causes) - from_signatures - from_elsewhere == set()


def test_texts_of_victims_are_never_roots_here_and_symptoms_on_the_agent() -> None:
    """The agent has a table of its own, because nodes read no package data: both agree on every example."""
    victims = [re.compile(pattern) for pattern, _ in TABLE]
    roots = [each for each in CATALOGUE.signatures.values() if each.role is Role.ROOT]
    both = {each.id for each in roots if any(pattern.search(SOURCES[each.id].example) for pattern in victims)}
    # The agent withholds these, because it sees one rank; all ranks together show their cause.
    assert both == {
        "c10d-client-timeout", "c10d-clients-missing", "elastic-rdzv-timeout", "gloo-connect-refused", "gloo-fullmesh",
        "jax-barrier-timeout", "monitored-barrier",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x]\nrole = 'root'", "has no"),
        (
            "[x]\nrole='root'\nmeans='m'\nanchors=['a']\npattern='a'\ncause='none'",
            "unknown cause",
        ),
        ("[x]\nrole='root'\nmeans='m'\nanchors=['a']\npattern='a'", "with cause None"),
        ("[x]\nrole='root'\nmeans='m'\nanchors='a'\npattern='a'\ncause='c'", "is not a list"),
        (
            "[x]\nrole='root'\nmeans='m'\nanchors=['a']\npattern='a'\ncause='c'\nshows=['{b}']",
            "shows unknown groups: b",
        ),
        (
            "[x]\nrole='root'\nmeans='m'\nanchors=['a']\npattern='a'\ncause='c'\nalso=['d']",
            "unknown causes d",
        ),
        (
            "[x]\nrole='root'\nmeans='m'\nanchors=['a']\npattern='a'\ncause='c'\ncases=[{has='a',cause='d',means='m'}]",
            "unknown causes d",
        ),
        ("[x]\nrole='culprit'\nmeans='m'\nanchors=['a']\npattern='a'", "not a valid Role"),
    ],
)
def test_data_that_is_not_as_documented_is_refused(text: str, message: str) -> None:
    causes = "[c]\npage='p'\nkind='storage'\ntitle='t'\nsure='s'\ncheck='c'\nfix=['f']"
    with pytest.raises(ValueError, match=message):
        parse_catalogue({"causes": causes, "p": text})


def test_a_source_that_is_not_as_documented_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a list"):
        parse_sources("[x]\nexample='a'\nsources='a'")


@pytest.mark.parametrize(
    ("text", "cause", "also"),
    [
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", "container-shm", []),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", "host-oom", []),
        ("NCCL WARN Cuda failure 'out of memory'", "gpu-memory-foreign", ["gpu-memory"]),
        ("slurmstepd: error: *** JOB 7 ON n2 CANCELLED AT 2026-03-01T14:30:00 DUE TO PREEMPTION ***", "preemption", []),
    ],
)
def test_words_of_a_text_show_which_of_its_causes_it_is(text: str, cause: str, also: list[str]) -> None:
    found = cause_in([scanned(f"{text}\n")])
    assert (found.cause.id, [each.id for each in found.also]) == (cause, also)


def test_ranks_that_a_text_names_are_those_to_blame() -> None:
    assert cause_in([scanned("[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 300000 ms\n")]).ranks == (2, 3)
