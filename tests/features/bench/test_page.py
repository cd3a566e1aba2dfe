"""The page of bench holds everything in one file, and texts of nodes cannot become markup."""

from __future__ import annotations

from pylaunch.features.bench.judgement.page import BenchPage, bench_page

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def test_texts_are_escaped_and_plots_are_not() -> None:
    made = bench_page(
        BenchPage(HOSTILE, [(HOSTILE, True)], [HOSTILE], ("bytes",), [(HOSTILE,)], {"Rates": "<svg>drawn</svg>"})
    )
    assert "<script" not in made
    assert "\x1b" not in made
    assert made.count("&lt;script&gt;") == 5
    assert "<svg>drawn</svg>" in made
    assert "<li class=bad>" in made


def test_what_was_not_measured_has_no_table() -> None:
    made = bench_page(BenchPage("bench", [], ["pairs: no verdict"], ("bytes",), [], {}))
    assert "<table" not in made
    assert "pairs: no verdict" in made
