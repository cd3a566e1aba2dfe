"""`start --fallback`: after InfiniBand failed, the next attempt runs without it, and after NCCL failed, with gloo."""

from collections.abc import Callable
from pathlib import Path

from pylaunch.errors import ExitCode
from tests.starts.cluster import DirectoryCluster, ended

LINE = "NCCL WARN NET/IB : Got completion from peer 10.1.7.21<40211> with error 12, opcode 1, len 0, vendor err 129"
JOB = f"echo restart $TORCHELASTIC_RESTART_COUNT; [ \"$NCCL_IB_DISABLE\" = 1 ] || {{ echo '{LINE}' >&2; exit 1; }}"

ASKS = f"""\
import os, sys
from pylaunch import runtime
backend = runtime.backend("nccl")
if backend == "nccl":
    is_tcp = os.environ.get("NCCL_IB_DISABLE") == "1"
    sys.exit("ncclInternalError: Internal check failed." if is_tcp else "{LINE}")
print("trains with", backend)
"""


def test_after_infiniband_failed_the_next_attempt_runs_without_it(directories: Callable[..., DirectoryCluster]) -> None:
    cluster = directories("n1")
    start = ended(cluster.start("--max-restarts", "2", "--fallback", "--", "sh", "-c", JOB), code=ExitCode.DONE)
    assert "warning: fallback: NCCL_IB_DISABLE=1, because texts of failed ranks point to InfiniBand" in start.stderr
    assert "pylaunch bench --stage all-reduce, without and with --no-ib" in start.stderr
    assert [each["status"] for each in cluster.outcomes().values()] == ["failed", "done"]


def test_a_script_that_asks_for_its_backend_gets_gloo_after_nccl_failed_without_infiniband(
    directories: Callable[..., DirectoryCluster], tmp_path: Path
) -> None:
    cluster, script = directories("n1", "n2"), tmp_path / "train.py"
    script.write_text(ASKS)
    words = ("--framework", "direct", "--python", "/usr/bin/python3", "--max-restarts", "2", "--fallback")
    start = ended(cluster.start("--workdir", str(tmp_path), *words, "--", str(script)), code=ExitCode.DONE)
    warnings = [line for line in start.stderr.splitlines() if line.startswith("warning: fallback: ")]
    assert [line.split()[2].rstrip(",") for line in warnings] == ["NCCL_IB_DISABLE=1", "PYLAUNCH_BACKEND=gloo"]
    assert "other scripts use NCCL again" in warnings[1]
    assert "pylaunch: gloo instead of nccl (PYLAUNCH_BACKEND)" in start.stderr
    assert start.stdout.count("trains with gloo") == 2
    assert [each["status"] for each in cluster.outcomes().values()] == ["failed", "failed", "done"]
