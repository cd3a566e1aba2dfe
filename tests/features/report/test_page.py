"""A report is one file without scripts, shows what a person needs first, and keeps hostile text inside its elements."""

import re
import time
from dataclasses import replace

import pytest

from pylaunch.features.report.page import page
from pylaunch.features.report.rows import last_lines, nodes
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.text.redaction import Redaction
from tests.features.report import samples
from tests.report_page import Document

NOTHING = Redaction().hide
MADE_AT = samples.BEGUN + 70
SECTIONS_OF_ANY_RUN = {"verdict", "command", "started-by"}


@pytest.fixture(scope="module")
def large() -> str:
    return page(samples.large(), MADE_AT, NOTHING)


def test_the_cause_comes_first_and_every_section_has_its_content(large: str) -> None:
    found = Document(large)
    assert f"rank {samples.CAUSE} on gpu038 was killed by SIGKILL" in found.text["verdict"]
    assert "memory.max 4294967296" in found.text["verdict"]
    assert found.text["command"] == "train.py --epochs 3"
    assert found.text["started-by"] == "started by alice on laptop"
    assert "oom_kill rose by 1" in found.text["verdict"]
    assert "medium confidence: out-of-memory; to be sure: does it fail at the same step" in found.text["verdict"]
    assert "pylaunch explain 7f3a9c01" in found.text["verdict"]
    assert f"rank {samples.CAUSE} failed at" in found.text["timeline"]
    assert "gpu038 ranks 148,150-151 stopped; rank 149 failed" in found.text["ranks"]
    assert re.search(rf"(?s)\[rank{samples.CAUSE}\] step 29.*rank 148 stopped with the run", found.text["ranks"])


def test_256_ranks_on_64_nodes_are_small_quick_and_folded(large: str) -> None:
    begun = time.process_time()
    again = page(samples.large(), MADE_AT, NOTHING)
    assert time.process_time() - begun < 5  # 0.4 s on a free core
    assert again == large
    assert len(large.encode()) < 5_000_000
    found = Document(large)
    assert found.elements["svg"] == 64
    assert found.elements["details"] == 64 + 2
    assert sum(name == "open" for name, _ in found.attributes) == 1


def test_nothing_is_loaded_and_nothing_is_run(large: str) -> None:
    for text in (large, page(samples.hostile(), MADE_AT, NOTHING)):
        found = Document(text)
        assert not {"script", "img", "iframe", "object", "embed", "form", "base", "video"} & set(found.elements)
        assert [name for name, _ in found.attributes if name.startswith("on")] == []
        targets = [value for name, value in found.attributes if name in ("src", "href", "xlink:href", "action")]
        assert set(targets) == {"data:,"}
        assert "url(" not in text
        assert "@import" not in text


def test_hostile_text_stays_text() -> None:
    text = page(samples.hostile(), MADE_AT, NOTHING)
    found, harmless = Document(text), Document(page(samples.large(), MADE_AT, NOTHING))
    assert set(found.elements) <= set(harmless.elements)
    assert found.elements["h1"] == 1
    assert found.elements["main"] == 1
    assert "<script>document.title='owned'</script>" in found.text["ranks"]
    assert "{{ 7 * 7 }}" in found.text["ranks"]
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff]", text) is None
    assert "right to left \\u202e" in found.text["ranks"]
    assert len(text.encode()) < 5_000_000
    assert max(map(len, text.splitlines())) < 50_000


def test_secrets_are_masked_before_a_line_is_cut() -> None:
    of = samples.plan(2, 1)
    secret = "tr0ub4dor-and-3"
    record = samples.record(of, 1)
    assert record.outcome is not None
    lines = ("x" * 1990 + secret, "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz")
    outcome = replace(record.outcome, ends=tuple(replace(end, last_lines=lines) for end in record.outcome.ends))
    text = page(replace(record, outcome=outcome), MADE_AT, Redaction([secret]).hide)
    assert "tr0ub" not in text
    assert "hf_abc" not in text


def test_the_named_host_is_not_folded_away_where_many_others_failed_before_it_in_the_plan() -> None:
    record = samples.large()
    assert record.outcome is not None
    failed = tuple(replace(end, stopped=False) for end in record.outcome.ends)
    found = nodes(replace(record, outcome=replace(record.outcome, ends=failed)), NOTHING)
    assert (found[0].host, len(found)) == ("gpu038", 64)


def test_a_last_line_that_is_longer_than_all_of_its_rank_s_share_is_cut_and_not_left_out() -> None:
    (end, *_) = samples.ends(samples.plan(1, 1), 0)
    assert last_lines(replace(end, last_lines=("loading", "x" * 1500)), 1000, NOTHING) == ("x" * 1000 + "…",)


def test_a_refused_start_shows_each_reason_once_and_no_section_without_content() -> None:
    of = samples.plan(3, 2)
    reason = "/opt/pylaunch/current/bin/python does not exist"
    refused = Outcome(
        Status.REFUSED, "3 of 3 hosts cannot take part", samples.BEGUN, (), {}, hint="pylaunch provision",
        refusals={"gpu003": (reason, "no room"), "gpu001": (reason,), "gpu002": (reason,)},
    )  # fmt: skip
    record = replace(samples.record(of, 1), events=(), outcome=refused)
    found = Document(page(record, MADE_AT, NOTHING, lambda hint: f"{hint} -i /srv/cluster.ini"))
    assert re.search(rf"gpu\[001-003\]: {re.escape(reason)}gpu003: no room", found.text["verdict"])
    assert "Type next: pylaunch provision -i /srv/cluster.ini" in found.text["verdict"]
    assert set(found.text) <= SECTIONS_OF_ANY_RUN
