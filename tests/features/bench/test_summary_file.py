"""Results of a measurement lie in the record of its run; a damaged file is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylaunch.errors import UsageError
from pylaunch.features.bench.run.summary_file import read_bench_summary, write_bench_summary
from pylaunch.store.paths import run_paths
from tests.features.bench.test_report_section import bench

SUMMARY = bench(("n1", "n2", "n3"), "pairs: no slow node", "7f3a9c01")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_what_is_written_is_read() -> None:
    paths = run_paths("7f3a9c01")
    paths.directory.mkdir(parents=True)
    paths.plan.write_text("{}")
    assert read_bench_summary("7f3a9c01") is None
    write_bench_summary("7f3a9c01", SUMMARY)
    assert read_bench_summary("7f3a9c01") == SUMMARY
    assert {path.name for path in paths.directory.iterdir()} == {"plan.json", "bench.json"}


def test_a_run_without_a_record_gets_none() -> None:
    write_bench_summary("7f3a9c01", SUMMARY)
    assert not run_paths("7f3a9c01").directory.exists()


def test_a_damaged_file_is_named() -> None:
    path = run_paths("7f3a9c01").bench
    path.parent.mkdir(parents=True)
    path.write_text('{"hosts": 7}')
    with pytest.raises(UsageError, match=r"bench\.json: the results of bench cannot be read"):
        read_bench_summary("7f3a9c01")
