"""Verbs of the agent's command line. Each prints one JSON object or speaks the protocol of its module."""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
from functools import partial

from pylaunch.agent import wire
from pylaunch.agent.evidence import disk_space
from pylaunch.agent.run import hold, shipped_code
from pylaunch.agent.run.worker_group import archive
from pylaunch.agent.serve import job_daemon, relay, standby
from pylaunch.agent.shared import clean, rank_files, record, run_lock
from pylaunch.agent.shared.layout import (
    JOB_VARIABLE,
    AgentError,
    NodeRoot,
    RunNotOnNodeError,
    SupervisorStoppedError,
    default_root,
    open_root,
)

MAX_ARCHIVE = 16 << 20


def main() -> int:
    """Run one verb and return the exit code."""
    arguments = _parser().parse_args()
    try:
        if arguments.version:
            print(version())
            return 0
        if arguments.verb is None:
            raise AgentError("expected a verb; see --help")
        return _run_verb(arguments, open_root(arguments.root, make=not arguments.dry_run))
    except (AgentError, wire.WireError, OSError) as error:
        if arguments.verb in ("open", "attach"):
            return relay.fail(_message(error), _code(error))
        print(json.dumps({"error": _message(error)}))
        return 1


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename:
        full = disk_space.full([os.path.dirname(str(error.filename))])
        return f"{error.filename} cannot be written: {'; '.join(full) or error.strerror}"
    return str(error)


def _code(error: Exception) -> str:
    if isinstance(error, SupervisorStoppedError):
        return wire.AGENT_STOPPED
    return wire.NO_RUN if isinstance(error, RunNotOnNodeError) else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.pyz", description="pylaunch's agent on this node")
    parser.add_argument("--version", action="store_true", help="print the content hash of this archive")
    parser.set_defaults(verb=None, dry_run=False)
    verbs = parser.add_subparsers(dest="verb")
    for name, text in (
        ("hello", "print the version of this agent and the live runs of this node"),
        ("open", "connect to the supervisor of a run, and start it if there is none"),
        ("attach", "connect to the supervisor of a run, or replay a run that is over"),
        ("job", "start the supervisors of runs in a Slurm job step, until the job ends"),
        ("runs", "list the runs of this node, live and past"),
        ("ship", "receive the code of a run"),
        ("hold", "hold devices for a spare of a run while stdin is open"),
        (standby.VERB, "supervise the next attempt of a run; the agent calls it itself"),
        ("clean", "remove leftovers of dead runs"),
        ("node", "install this archive under the root, and clean"),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("--root", default=default_root(), help="node root; {user} becomes the numeric user id")
        if name in ("open", "attach", "ship", "hold", standby.VERB):
            verb.add_argument("--run", required=True, help="id of the run")
        if name == standby.VERB:
            verb.add_argument("--state", required=True, help="descriptors of the agent that becomes this one")
        if name == "job":
            verb.add_argument("--job", required=True, help="id of the Slurm job")
            verb.add_argument("--idle", type=float, required=True, help="seconds without a run after which it ends")
        if name in ("clean", "node"):
            verb.add_argument("--dry-run", action="store_true", help="change nothing")
    return parser


def _run_verb(arguments: argparse.Namespace, root: NodeRoot) -> int:
    if arguments.verb == "open":
        return relay.open_run(root, arguments.run, version(), job=os.environ.get(JOB_VARIABLE))
    if arguments.verb == "attach":
        return relay.attach(root, arguments.run, version())
    if arguments.verb == "ship":
        return shipped_code.serve(root, arguments.run)
    if arguments.verb == "hold":
        return _hold(root, arguments.run)
    if arguments.verb == standby.VERB:
        return relay.stand_by(root, arguments.run, version(), arguments.state)
    if arguments.verb == "job":
        start = partial(relay.start_supervisor, version=version())
        return job_daemon.JobDaemon(root, arguments.job, start, idle_s=arguments.idle).serve()
    if arguments.verb == "hello":
        print(json.dumps(_hello(root)))
    elif arguments.verb == "runs":
        print(json.dumps(_runs(root)))
    elif arguments.verb == "clean":
        cleaned = clean.clean(root, dry_run=arguments.dry_run)
        print(json.dumps({"removed": cleaned.removed, "left": cleaned.left, "stopped": cleaned.stopped}))
    else:
        print(json.dumps(_node(root, dry_run=arguments.dry_run)))
    return 0


def _hold(root: NodeRoot, run: str) -> int:
    """Hold devices; on a node of a Slurm job keep the daemon of that job alive meanwhile."""
    job = os.environ.get(JOB_VARIABLE)
    with contextlib.closing(job_daemon.kept(root, job)) if job is not None else contextlib.nullcontext():
        return hold.serve(root, run)


def _hello(root: NodeRoot) -> dict[str, object]:
    return {
        "version": version(),
        "protocol": wire.PROTOCOL,
        "python": sys.version.split()[0],
        "host": os.uname().nodename,
        "uid": os.getuid(),
        "root": root.path,
        "runs": [directory.run for directory in root.all_runs() if run_lock.is_live(directory)],
    }


def _runs(root: NodeRoot) -> list[dict[str, object]]:
    tasks = [(directory, record.read_task(directory)) for directory in root.all_runs()]
    return [
        {"run": task.run, "host": task.host, "live": run_lock.is_live(directory), "record": task.record}
        for directory, task in tasks
        if task is not None
    ]


def _node(root: NodeRoot, *, dry_run: bool) -> dict[str, object]:
    installed = install(root, dry_run=dry_run)
    cleaned = clean.clean(root, dry_run=dry_run)
    removed = cleaned.removed + ([] if dry_run else clean.prune_archives(root, version()))
    return {
        **_hello(root),
        "changed": installed or bool(removed),
        "agent": root.archive(version()),
        "removed": removed,
        "left": cleaned.left,
    }


def version() -> str:
    """Return the content hash of the archive that this process runs from."""
    return _digest(archive())


def _digest(path: str) -> str:
    return hashlib.sha256(rank_files.read_whole(path, MAX_ARCHIVE)).hexdigest()[:16]


def install(root: NodeRoot, *, dry_run: bool) -> bool:
    """Copy this archive atomically to the place where controllers look for it. Return False if it is there already."""
    target = root.archive(version())
    with contextlib.suppress(OSError):  # Missing, or not a regular file.
        if _digest(target) == version():
            return False
    if not dry_run:
        aside = f"{target}.{os.getpid()}"
        shutil.copyfile(archive(), aside)
        os.chmod(aside, 0o600)
        os.replace(aside, target)
        clean.forget_compiled(target)
    return True
