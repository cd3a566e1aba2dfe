"""The script of the Slurm job that pylaunch submits. Pure.

The script only starts the daemon of the job on each node and waits. Runs, their ranks and their ends are the business
of the agents and of the controller, as over SSH. The archive of the agent travels in the script, so that nodes need
neither a shared file system nor an installation.
"""

import base64
import textwrap

from pylaunch import __version__
from pylaunch.model.cluster import Host
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.runs.connect.agent_link import AGENT_ABSENT, TRUST, root_words
from pylaunch.runs.prepare.launch import AgentArchive
from pylaunch.transport.slurm import connector

IDLE_S = 60
"""Seconds without a run after which a job that pylaunch submitted ends, for a controller that died: a live one connects
within seconds after the grant, and starts another attempt within seconds after the last."""

IDLE_HERE_S = 15
"""The same for the step in a job of somebody else, which costs the job nothing."""

_SCRIPT = """\
#!/bin/sh
# Written by pylaunch {version}. This job keeps its nodes, with an agent of pylaunch on each, for the run that its
# controller starts there. It ends with the run, or when no run has used it for a minute.
#   squeue -j $SLURM_JOB_ID     shows the job
#   pylaunch ps                 shows the run
#   scancel $SLURM_JOB_ID       ends both

job=$SLURM_JOB_ID nodes=$SLURM_JOB_NUM_NODES overlap=--overlap
# After --gpus=N, an overlapping step of Slurm 22.05 gets one GPU on each node instead of all.
[ -z "$SLURM_GPUS" ] || overlap=
# srun would obey these variables of sbatch.
unset $(env | sed -n 's/^\\(SLURM_[A-Za-z0-9_]*\\)=.*/\\1/p' | grep -v '^SLURM_CONF$')

# The input of this step is the agent's archive.
base64 -d << 'ARCHIVE' | {step} {words} "$job"
{archive}
ARCHIVE
"""

START_JOB_DAEMON = f"""\
{TRUST}
agent=$root/agents/$5.pyz
if trusted && whole "$agent" "$5"; then
  cat > /dev/null
else
  copy=$(mktemp) && cat > "$copy" && "$4" -I -S "$copy" node --root "$root"
  rm -f -- "$copy"
  trusted && whole "$agent" "$5" || exit {AGENT_ABSENT}
fi
exec "$4" -I -S "$agent" job --root "$root" --idle "$6" --job "$7" < /dev/null
"""
"""Words: as for ENTER, with idle seconds and Slurm job instead of verb and run. stdin is the archive, for a node that
lacks it."""


def job_script(archive: AgentArchive) -> str:
    """Return the script that starts `archive` on every node of its job."""
    return _SCRIPT.format(
        version=__version__,
        step=connector.step_of_script('"$job"', '"$nodes"', "$overlap"),
        words=quoted(_daemon(archive, IDLE_S)),
        archive=textwrap.fill(base64.b64encode(archive.data).decode(), 120),
    )


def daemon_argv(job: str, hosts: tuple[str, ...], archive: AgentArchive, gpus: int | None = None) -> Argv:
    """Return the command line that starts `archive`, its stdin, on `hosts` of `job` with `gpus`."""
    return connector.step(job, hosts, (*_daemon(archive, IDLE_HERE_S), job), gpus=gpus)


def _daemon(archive: AgentArchive, idle_s: int) -> Argv:
    """Return the words that start the daemon, without the last one: the id of the job."""
    host = Host("", "")
    return ("/bin/sh", "-c", START_JOB_DAEMON, "sh", *root_words(host), host.agent_python, archive.version, str(idle_s))
