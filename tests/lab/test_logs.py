"""Output of ranks on three real nodes: selected, collected, and in floods."""

import re
from datetime import UTC, datetime
from pathlib import Path

from lab.lab import Lab
from pylaunch.errors import ExitCode
from tests.lab.controller import Gate, listed, must_be_clean, newest, of_runs, starting
from tests.waiting import wait_until

COMMAND = ("--workdir", "/tmp", "--framework", "command")
MEBIBYTE = 1 << 20


def resident(status: str) -> int:
    """Bytes of memory that the process whose /proc/PID/status this is has had at most."""
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) * 1024


def test_logs_are_chosen_by_rank_node_pattern_and_end_and_can_be_collected(lab: Lab, tmp_path: Path) -> None:
    script = 'for step in 1 2 3; do echo "rank $RANK step $step"; done; echo "warn $RANK" >&2'
    collected = tmp_path / "collected"
    flags = (*COMMAND, "--nproc-per-node", "2", "--save-logs", str(collected))
    run = lab.pylaunch("start", "-i", str(lab.inventory), *flags, "--", "sh", "-c", script)
    assert run.returncode == ExitCode.DONE, run.stderr
    assert "collected 12 logs" in run.stderr
    files = {str(path.relative_to(collected)): path.read_text() for path in collected.rglob("*.*")}
    assert files["n2/3.out"] == "rank 3 step 1\nrank 3 step 2\nrank 3 step 3\n"
    assert files["n3/5.err"] == "warn 5\n"
    chosen = lab.pylaunch(
        "logs", "--rank", "1-4", "--node", "n[1-2]", "--grep", "step ", "--tail", "2", newest(lab)
    ).stdout
    assert sorted(chosen.splitlines()) == [
        f"{place} | rank {place[-1]} step {step}" for place in ("n1:1", "n2:2", "n2:3") for step in (2, 3)
    ]


def test_what_was_written_since_a_moment_is_shown_live_and_afterwards(lab: Lab, tmp_path: Path, gate: Gate) -> None:
    script = f'echo "early $RANK"; {gate.wait}; echo "late $RANK"; sleep 2'
    with starting(lab, tmp_path, *COMMAND, "--nproc-per-node", "2", "--", "sh", "-c", script) as started:
        started.says("| early", times=6)
        run = runs_of(lab)[0]
        marks = f"find /var/tmp/pylaunch-0/runs/{run}/times -type f -size +0c"
        wait_until(
            lambda: all(len(node.run("sh", "-c", marks, check=False).stdout.split()) == 2 for node in lab), "the marks"
        )
        moment = datetime.now(UTC).isoformat()
        gate.open()
        live = lab.pylaunch("logs", "-f", "--since", moment, run)
        assert started.ends() == ExitCode.DONE
    for shown in (live, lab.pylaunch("logs", "--since", moment, run)):
        assert sorted(shown.stdout.splitlines()) == [f"n{rank // 2 + 1}:{rank} | late {rank}" for rank in range(6)]
    assert lab.pylaunch("logs", "--since", moment, "--rank", "3", "--grep", "late", run).stdout == "n2:3 | late 3\n"
    assert lab.pylaunch("logs", "--since", "1h", "--tail", "1", run).stdout.count("| late") == 6
    assert len(lab.pylaunch("logs", "--since", "1h", run).stdout.splitlines()) == 12
    assert lab.pylaunch("logs", "--since", "0s", run).stdout == ""
    refused = lab.pylaunch("logs", "--since", "last week", run)
    assert refused.returncode == ExitCode.USAGE
    assert "--since: expected how long ago, such as 90s, 10m or 1h30m" in refused.stderr
    must_be_clean(lab)


def runs_of(lab: Lab) -> list[str]:
    """The ids of live runs."""
    return [each["run"] for each in listed(lab)]


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
