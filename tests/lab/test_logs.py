"""Output of ranks on three real nodes: selected, collected, and in floods."""

import re
from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import Gate, must_be_clean, of_runs, starting
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
MEBIBYTE = 1 << 20


def resident(status: str) -> int:
    """Bytes of memory that the process whose /proc/PID/status this is has had at most."""
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) * 1024


FLOOD = """
echo begin
if [ $RANK = 1 ]; then
  yes 'a line of sixty-four bytes, as often as a loop can print it, again.' | head -n 8000000
else
  for t in 1 2 3 4 5 6; do echo "tick $t"; sleep 0.5; done
fi
echo end
"""


def test_a_rank_that_floods_stalls_nobody_and_fills_no_memory(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    with starting(lab, tmp_path, *COMMAND, "--", "sh", "-c", FLOOD + gate.wait) as started:
        wait_until(lambda: "n2:1 | end\n" in started.newest, "the end of the flood")
        started.says("n1:0 | tick 6")
        started.says("n3:2 | tick 6")
        agent = next(line.split()[1] for line in of_runs(lab["n2"]) if line.startswith("agent"))
        assert resident(lab["n2"].read(f"/proc/{agent}/status")) < 64 * MEBIBYTE
        assert resident(Path(f"/proc/{started.process.pid}/status").read_text()) < 256 * MEBIBYTE
        gate.open()
        assert started.ends() == ExitCode.DONE
    skipped = r"^n2:1 \| … \d.* skipped, in n2:/var/tmp/pylaunch-0/runs/\w+/logs/1\.out$"
    assert re.search(skipped, started.stderr, re.MULTILINE)
    must_be_clean(lab)
