"""Runs of `bench` in lists of runs."""

from __future__ import annotations

from pylaunch.features.bench.run import bench_run
from pylaunch.terminal.listing import job_words


def test_a_run_of_bench_is_shown_as_the_verb() -> None:
    assert job_words((*bench_run.MODULE, "--sizes", "4096,16384")) == "pylaunch bench"
