"""srun, squeue, scancel and scontrol of a cluster whose nodes are this machine, for scripts of sbatch."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

ENDS_S = 60
_PROGRAMS = {
    "scontrol": "for ((each = 0; each < NODES; each++)); do echo 127.0.0.1; done",
    "squeue": 'cd "$STEPS" && for each in *.pids; do [[ ! -e $each ]] || echo "7.${each%.pids} ${each%.pids}"; done',
    "scancel": 'echo "${2#7.} ${1#--signal=}" >>"$STEPS/signals"; kill -s "${1#--signal=}" $(<"$STEPS/${2#7.}.pids")',
    "srun": """
while [[ $1 == --* ]]; do declare "$(tr - _ <<<"${1%%=*}")=${1#*=}"; shift; done
export SLURM_NNODES=$__nodes SLURM_NTASKS_PER_NODE=$__ntasks_per_node SLURM_NTASKS=$((__nodes * __ntasks_per_node))
for ((each = 0; each < SLURM_NTASKS; each++)); do
  export SLURM_PROCID=$each SLURM_LOCALID=$((each % __ntasks_per_node)) SLURM_NODEID=$((each / __ntasks_per_node))
  "$@" & pids+=("$!")
done
echo "${pids[@]}" >"$STEPS/$__job_name.pids"
code=0
for each in "${pids[@]}"; do wait "$each" || code=$?; done
rm "$STEPS/$__job_name.pids"
exit "$code"
""",
}


def ran(script: str, directory: Path, nodes: int, **env: str) -> tuple[int, str, list[str]]:
    """Run a script in `directory`, and return its exit code, its output, and the signals to its steps, in order."""
    bin_, steps = directory / "bin", directory / "steps"
    for each in (bin_, steps):
        each.mkdir()
    for name, text in _PROGRAMS.items():
        (bin_ / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (bin_ / name).chmod(0o755)
    (directory / "job.sbatch").write_text(script)
    made = {
        "PATH": f"{bin_}:{os.environ['PATH']}", "STEPS": str(steps), "NODES": str(nodes), "SLURM_JOB_NODELIST": "n",
        "SLURM_JOB_ID": str(random.randrange(1 << 30)), **env,
    }  # fmt: skip
    shown = directory / "job.out"
    with shown.open("wb") as out:
        ended = subprocess.run(
            ("bash", "job.sbatch"), cwd=directory, env=made, stdout=out, stderr=out, timeout=ENDS_S, check=False
        )
    signals = steps / "signals"
    return ended.returncode, shown.read_text(), signals.read_text().splitlines() if signals.exists() else []
