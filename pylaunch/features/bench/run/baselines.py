"""Compare results of `pylaunch bench` with earlier ones of the same cluster, and keep them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from pylaunch.base.dataclass import asdict, replace
from pylaunch.errors import UsageError
from pylaunch.features.bench.judgement.baseline import Baseline, levels, regressions
from pylaunch.features.bench.run.events import BenchRequest, BenchResult
from pylaunch.inventory.host_list import is_host_list
from pylaunch.model.cluster import Cluster
from pylaunch.model.text import typed_json
from pylaunch.model.text.argv import quoted
from pylaunch.store.paths import project_bench_baseline
from pylaunch.store.whole_file import SHARED, write_whole


def baseline_path(cluster: Cluster) -> Path | None:
    """Return the file of the cluster's baseline; None without an inventory file."""
    if not cluster.sources or is_host_list(Path(cluster.sources[0])):
        return None
    return project_bench_baseline(Path(cluster.sources[0]))


def conditions(result: BenchResult, request: BenchRequest) -> str:
    """Return the conditions under which results are compared."""
    found = result.conditions
    network = request.interface or "default interface"
    return (
        f"{found.backend}, {found.ranks} ranks, {found.ranks_per_node} on each of {','.join(sorted(result.hosts))}, "
        f"{network}{'' if request.uses_infiniband else ', without InfiniBand'}"
    )


def compared(result: BenchResult, request: BenchRequest, cluster: Cluster) -> BenchResult:
    """Return `result` with its regressions against the baseline, if there is one under the same conditions."""
    path = baseline_path(cluster)
    baseline = None if path is None or not result.collectives else read_baseline(path)
    if baseline is None or baseline.conditions != conditions(result, request):
        return result
    now = levels(result.collectives, result.conditions.ranks)
    return replace(result, regressions=regressions(baseline.levels, now.values()), baseline_made_at=baseline.made_at)


def save_baseline(result: BenchResult, request: BenchRequest, cluster: Cluster) -> Path:
    """Keep `result` as the baseline and return its file. The cluster must have a `baseline_path`."""
    path = baseline_path(cluster)
    assert path is not None
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = levels(result.collectives, result.conditions.ranks)
    write_baseline(path, Baseline(conditions(result, request), now, tuple(level for _, level in sorted(found.items()))))
    return path


def read_baseline(path: Path) -> Baseline | None:
    """Return the baseline in `path`; None if there is no file. Raises UsageError if it cannot be read."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return typed_json.decoded(text, Baseline)
    except msgspec.MsgspecError as error:
        again = f"rm {quoted((str(path),))}, and pylaunch bench --save-baseline"
        raise UsageError(f"{path}: {error}", hint=again) from None


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write `baseline` to `path`, whole or not at all. Raises UsageError."""
    text = json.dumps(asdict(baseline), indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{text}\n".encode(), SHARED)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
