#!/usr/bin/env python3
"""Record `pylaunch top` as docs/pictures/top.svg: its screen beside two real runs on directories of this machine."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from pylaunch.features.top.app import TopApp  # noqa: E402
from pylaunch.features.top.live_runs import FollowedRuns  # noqa: E402
from tests.starts.cluster import DirectoryCluster, made_of_directories  # noqa: E402

PICTURE = ROOT / "docs/pictures/top.svg"
SIZE = (118, 24)
WAITS_S = 300.0
TRAIN = """\
import random, sys, time
step_s = float(sys.argv[1])
for step in range(1, 100000):
    time.sleep(step_s)
    print(f"step {step}/20000 loss {2 / step + random.random() / 9:.4f}", flush=True)
"""
_TREND = re.compile(r"[+-]\d+%")
_FONT_OF_THE_WEB = re.compile(r"@font-face \{.*?\}", re.S)


def start(cluster: DirectoryCluster, limit: str, step_s: str) -> None:
    """Start a run in the background."""
    inventory, script = str(cluster.inventory), str(cluster.inventory.with_name("train.py"))
    words = (
        "--limit",
        limit,
        "--nproc-per-node",
        "2",
        "--workdir",
        str(ROOT),
        "--python",
        sys.executable,
        "--detach",
        "--",
        script,
        step_s,
    )
    started = cluster.run("start", "-i", inventory, *words)
    assert started.returncode == 0, started.stderr


async def picture() -> str:
    """Return the screen as SVG when both runs have a trend."""
    with FollowedRuns(None) as live:
        app = TopApp(live, lambda _: None)
        async with app.run_test(size=SIZE) as pilot:
            until = time.monotonic() + WAITS_S
            while len(_TREND.findall(shown := app.export_screenshot(title="pylaunch top"))) < 2:
                assert time.monotonic() < until, "no trend"
                await pilot.pause(1.0)
    return _FONT_OF_THE_WEB.sub("", shown)


def main() -> None:
    """Start two runs, write the picture, and stop the runs."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-top-") as made:
        cluster = made_of_directories(Path(made), ("gpu01", "gpu02", "gpu03", "gpu04"))
        cluster.inventory.with_name("train.py").write_text(TRAIN)
        os.environ["XDG_STATE_HOME"] = str(cluster.state)
        try:
            start(cluster, "gpu[01-02]", "0.25")
            start(cluster, "gpu[03-04]", "0.5")
            PICTURE.write_text(asyncio.run(picture()), encoding="utf-8")
        finally:
            assert cluster.run("stop", "--all").returncode == 0


if __name__ == "__main__":
    main()
