"""The page about the path of a start, and the trace of a real one."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_names_the_files_of_runs_that_a_start_enters_and_a_start_climbs_rarely() -> None:
    page = (ROOT / "docs/contributing/controller.md").read_text()
    before_release = page[page.index("render.py, ") : page.index("──► Release\n")]
    traced = subprocess.run(
        [sys.executable, ROOT / "scripts/start_path.py"], capture_output=True, text=True, check=True
    )
    entered = set(re.findall(r"^(runs/\S+)$", traced.stdout, re.MULTILINE))
    named = set(re.findall(r"runs/[\w/]+\.py", before_release)) | {"runs/connect/agent_link.py"}
    assert named | {"runs/events.py"} == entered
    count = re.search(r"(\d+) files on the path, (\d+) climbs", traced.stdout)
    assert count is not None
    assert int(count[1]) <= 25
    assert int(count[2]) <= 1, traced.stdout
