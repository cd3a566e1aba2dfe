"""srun, squeue, scancel and scontrol of a cluster whose nodes are this machine, for scripts of sbatch."""

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

from tests.waiting import wait_until

ENDS_S = 60
_PROGRAMS = {
    "scontrol": "for ((each = 0; each < NODES; each++)); do echo 127.0.0.1; done",
    "squeue": """
echo "7.batch batch"
cd "$STEPS" && for each in *.name; do [[ ! -e $each ]] || echo "7.${each%.name} $(<"$each")"; done
""",
    "scancel": """
id=${2#7.} signal=${1#--signal=}
pids=$(<"$STEPS/$id.pids") name=$(<"$STEPS/$id.name") || exit 1
echo "$name $signal" >>"$STEPS/signals"
kill -s "$signal" $pids
""",
    "srun": """
while [[ $1 == --* ]]; do declare "$(tr - _ <<<"${1%%=*}")=${1#*=}"; shift; done
export SLURM_NNODES=$__nodes SLURM_NTASKS_PER_NODE=$__ntasks_per_node SLURM_NTASKS=$((__nodes * __ntasks_per_node))
for ((each = 0; each < SLURM_NTASKS; each++)); do
  export SLURM_PROCID=$each SLURM_LOCALID=$((each % __ntasks_per_node)) SLURM_NODEID=$((each / __ntasks_per_node))
  "$@" & pids+=("$!")
done
echo "${pids[@]}" >"$STEPS/$$.pids"
echo "$__job_name" >"$STEPS/$$.new"
mv "$STEPS/$$.new" "$STEPS/$$.name"
code=0
for each in "${pids[@]}"; do wait "$each" || code=$?; done
rm "$STEPS/$$.name" "$STEPS/$$.pids"
exit "$code"
""",
}


def ran(
    script: str, directory: Path, nodes: int, *, terminate_at: str | None = None, **env: str
) -> tuple[int, str, list[str]]:
    """Run a script in `directory`, and return its exit code, its output, and the signals to its steps, in order.

    All of its processes get SIGTERM when the file `terminate_at` is there.
    """
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
        process = subprocess.Popen(
            ("bash", "job.sbatch"), cwd=directory, env=made, stdout=out, stderr=out, start_new_session=True
        )
        try:
            if terminate_at is not None:
                wait_until((directory / terminate_at).exists, terminate_at, ENDS_S)
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(ENDS_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    signals = steps / "signals"
    return process.returncode, shown.read_text(), signals.read_text().splitlines() if signals.exists() else []
