"""Results of `pylaunch bench` in the records of its runs: `bench.json`."""

import msgspec

from pylaunch.errors import UsageError
from pylaunch.features.bench.judgement.summary import BenchSummary
from pylaunch.model.text import typed_json
from pylaunch.store.paths import run_paths
from pylaunch.store.whole_file import write_whole


def write_bench_summary(run: str, summary: BenchSummary) -> None:
    """Write `summary` to the record of `run`, whole or not at all, if there is one. Raises OSError."""
    paths = run_paths(run)
    if paths.plan.exists():
        write_whole(paths.bench, msgspec.json.encode(summary))


def read_bench_summary(run: str) -> BenchSummary | None:
    """Return the results of the measurement that `run` was a part of; None for a run that is not of `pylaunch bench`.

    Raises UsageError for a file that cannot be read.
    """
    path = run_paths(run).bench
    try:
        return typed_json.decoded(path.read_bytes(), BenchSummary)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path}: the results of bench cannot be read: {error}") from None
