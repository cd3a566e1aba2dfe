#!/usr/bin/env python3
"""Record the report of a real run that fails as docs/pictures/report.png, with the browser of the tests."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser.headless import browser  # noqa: E402

from tests.starts.cluster import made_of_directories  # noqa: E402

PICTURE = ROOT / "docs/pictures/report.png"
WIDTH, HEIGHT = 1000, 775
TRAIN = """\
import os, time

RANK = int(os.environ["RANK"])


def train(steps):
    for step in range(steps):
        print(f"step {step}/1000 loss {2 / (step + 1):.4f}", flush=True)
        time.sleep(0.3)
        if RANK == 5 and step == 6:
            raise RuntimeError(f"loss is NaN at step {step}")


train(1000)
"""


def main() -> None:
    """Start the run, and write a picture of the begin of its report."""
    with tempfile.TemporaryDirectory(prefix="pylaunch-report-") as made:
        cluster = made_of_directories(Path(made), ("gpu01", "gpu02", "gpu03", "gpu04"))
        script, report = cluster.inventory.with_name("train.py"), cluster.inventory.with_name("report.html")
        script.write_text(TRAIN)
        os.environ["XDG_STATE_HOME"] = str(cluster.state)
        words = ("--nproc-per-node", "2", "--workdir", made, "--python", sys.executable, f"--report={report}")
        ended = cluster.run("start", "-i", str(cluster.inventory), *words, "--", "train.py")
        assert report.exists(), ended.stderr
        with browser(Path(made, "profile")) as page:
            page.show(report, WIDTH, HEIGHT)
            page.screenshot(PICTURE, whole=False)


if __name__ == "__main__":
    main()
