"""Start the daemons of a Slurm job that pylaunch did not submit: one step on all of its nodes."""

from __future__ import annotations

import os

from pylaunch.features.slurm.job_script import daemon_argv
from pylaunch.runs.prepare.archive import AgentArchive
from pylaunch.store.paths import job_files
from pylaunch.transport import process

_WITH_INPUT = 'input=$1; shift; exec "$@" < "$input"'


def start_daemons(job: str, hosts: tuple[str, ...], archive: AgentArchive, gpus: int | None) -> None:
    """Start `archive` on `hosts`; the step outlives this process, and ends with the job or when no run has used it.

    `gpus` are the GPUs that the step requests; None requests those of the job.
    """
    files = job_files(job, archive.version)
    files.archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = files.archive.with_suffix(f".{os.getpid()}")
    aside.write_bytes(archive.data)
    aside.replace(files.archive)
    words = daemon_argv(job, hosts, archive, gpus)
    process.start_daemon(("/bin/sh", "-c", _WITH_INPUT, "sh", str(files.archive), *words), log=files.log)
