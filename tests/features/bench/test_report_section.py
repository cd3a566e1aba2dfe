"""Results of `bench` in the report of one of its runs."""

import re

from pylaunch.features.bench.judgement.page import bench_page
from pylaunch.features.bench.judgement.summary import BenchSummary, SizeResult
from pylaunch.features.bench.report_section import measured_section
from pylaunch.features.bench.run import bench_run
from pylaunch.features.report.page.content import ReportInput
from pylaunch.features.report.page.html import page
from pylaunch.model.text.redaction import Redaction
from pylaunch.terminal.doors import MeasuredSection
from pylaunch.terminal.listing import job_words
from tests.features.report import samples
from tests.report_page import Document

HOSTS = tuple(f"gpu{number:03}" for number in range(1, 65))


def bench(hosts: tuple[str, ...], verdict: str, run: str) -> BenchSummary:
    """Results of `pylaunch bench` on `hosts`, with every plot."""
    sizes = tuple(SizeResult("all-reduce", 4096 << power, 1e-4, 0.01 * 2**power, 0) for power in range(8))
    pairs = tuple((index, index + 1, 1.0 + index) for index in range(0, len(hosts) - 1, 2))
    latencies = {"all-reduce": tuple(1e-4 + step * 1e-6 for step in range(200)), "round trip": (5e-5, 6e-5)}
    return BenchSummary(hosts, "gloo", 2, (run,), (verdict,), sizes, latencies, pairs)


def report(summary: BenchSummary, *secrets: str) -> str:
    """Return the report of a run of two ranks that was part of this measurement."""
    record = samples.record(samples.plan(2, 1), 1)
    return page(ReportInput(record, 0.0, measured=measured_section(summary)), Redaction(secrets).hide)


def test_the_section_has_the_verdicts_the_plots_and_all_sizes() -> None:
    text = report(bench(HOSTS, "slow node: gpu003 at 0.4 GB/s", "7f3a9c01"))
    found = Document(text)
    measured = found.text["measured"]
    assert "pylaunch bench, 2 ranks, backend gloo, runs 7f3a9c01" in measured
    assert "slow node: gpu003 at 0.4 GB/s" in measured
    for plot in ("bus bandwidth over size", "rates of pairs relative to the median", "share of messages that took"):
        assert plot in measured
    assert "gpu001 and gpu002: 1.000 GB/s" in measured
    assert re.search(r"all-reduce\s*4096\s*100.0\s*0.010\s*0", measured)
    assert ("href", "#measured") in found.attributes


def test_names_of_hosts_and_verdicts_stay_text() -> None:
    evil = samples.HOSTILE[:400]
    text = report(bench((evil, "</svg></main>", "<script>x</script>", "ok"), evil, evil))
    harmless = Document(report(bench(HOSTS[:4], "no slow node", "7f3a9c01")))
    found = Document(text)
    assert set(found.elements) <= set(harmless.elements)
    assert found.elements["main"] == 1
    assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff]", text) is None
    assert "url(" not in text


def test_names_in_plots_are_masked_and_cut() -> None:
    secret = "tr0ub4dor-and-3"
    text = report(bench((f"x{secret}", "n" * 1000), f"slow node: {secret}", "7f3a9c01"), secret)
    assert "tr0ub" not in text
    assert "n" * 64 in text
    assert "n" * 65 not in text


HOSTILE = "<script>alert(1)</script>\x1b[31m"


def test_texts_are_escaped_and_plots_are_not() -> None:
    made = bench_page(
        MeasuredSection(HOSTILE, [HOSTILE], {"Rates": "<svg>drawn</svg>"}, ("bytes",), [(HOSTILE,)]), [(HOSTILE, True)]
    )
    assert "<script" not in made
    assert "\x1b" not in made
    assert made.count("&lt;script&gt;") == 5
    assert "<svg>drawn</svg>" in made
    assert "<li class=bad>" in made


def test_what_was_not_measured_has_no_table() -> None:
    made = bench_page(MeasuredSection("bench", ["pairs: no verdict"], {}, ("bytes",), []), [])
    assert "<table" not in made
    assert "pairs: no verdict" in made


def test_a_run_of_bench_is_shown_as_the_verb() -> None:
    assert job_words((*bench_run.MODULE, "--sizes", "4096,16384")) == "pylaunch bench"
