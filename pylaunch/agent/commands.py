"""Verbs of the agent's command line. Each prints one JSON object or speaks the protocol of its module."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys

from pylaunch import protocol
from pylaunch.agent.evidence import rank_ends
from pylaunch.agent.run import shipped_code
from pylaunch.agent.run.worker_group import archive
from pylaunch.agent.serve import job_daemon, relay
from pylaunch.agent.shared import clean, rank_files, record, run_processes
from pylaunch.base.layout import (
    JOB_VARIABLE,
    AgentError,
    NodeRoot,
    RunNotOnNodeError,
    SupervisorStoppedError,
    default_root,
    open_root,
)

MAX_ARCHIVE = 16 << 20
MOST_RUNS = 512
"""Runs that `runs` lists: live ones first, then the newest."""


def main() -> int:
    """Run one verb and return the exit code."""
    if sys.argv[1:] == ["--version"]:
        print(version())
        return 0
    verb, code = sys.argv[1] if len(sys.argv) > 1 else "", 2
    try:
        options = parsed(verb, sys.argv[2:])
        code = 1
        return _run_verb(verb, options, open_root(options.get("root", default_root()), make="dry-run" not in options))
    except (AgentError, protocol.WireError, OSError) as error:
        if verb in ("open", "attach"):
            codes: dict[type[Exception], str] = {
                SupervisorStoppedError: protocol.AGENT_STOPPED,
                RunNotOnNodeError: protocol.NO_RUN,
            }
            relay.send(protocol.Failed(_message(error), codes.get(type(error), "")))
            return 1
        print(json.dumps({"error": _message(error)}))
        return code


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename:
        path = str(error.filename2 or error.filename)  # Of a copy, both are named.
        full = rank_ends.full([os.path.dirname(path)])
        return f"{path} cannot be written: {'; '.join(full) or error.strerror}"
    return str(error)


VERBS: dict[str, tuple[str, ...]] = {
    "open": ("run",),
    "attach": ("run",),
    "job": ("job", "idle"),
    "runs": (),
    "ship": ("run",),
    "keep": ("run",),
    "node": (),
}
"""Verb → options that it needs. All accept --root; the last one, --dry-run."""


def parsed(verb: str, words: list[str]) -> dict[str, str]:
    """Return the options of `verb` by name. Raises AgentError for any that it does not have, and for one that it needs.

    `argparse` would take 9 ms of each start of an agent.
    """
    if verb not in VERBS:
        raise AgentError(f"expected --version or a verb ({', '.join(VERBS)}), got {verb!r}")
    given = [word for word in words if word != "--dry-run" or verb != "node"]
    flags = {"dry-run": ""} if given != words else {}
    options = dict(zip(given[::2], given[1::2]))
    needed = {f"--{name}" for name in VERBS[verb]}
    if 2 * len(options) != len(given) or not needed <= options.keys() <= {"--root", *needed}:
        raise AgentError(f"{verb}: expected {sorted(needed)} and at most --root, each with a value; got {words}")
    return {**{name[2:]: value for name, value in options.items()}, **flags}


def _run_verb(verb: str, options: dict[str, str], root: NodeRoot) -> int:
    if verb == "open":
        return relay.open_run(root, options["run"], job=os.environ.get(JOB_VARIABLE))
    if verb == "attach":
        return relay.attach(root, options["run"])
    if verb == "ship":
        return shipped_code.serve(root, options["run"])
    if verb == "keep":
        return _keep(root)
    if verb == "job":
        daemon = job_daemon.JobDaemon(root, options["job"], idle_s=float(options["idle"]))
        return daemon.serve()
    print(json.dumps(_runs(root) if verb == "runs" else _node(root, dry_run="dry-run" in options)))
    return 0


def _keep(root: NodeRoot) -> int:
    """Keep the daemon of this Slurm job alive, on a node that no attempt uses, until stdin ends."""
    job = os.environ.get(JOB_VARIABLE)
    if job is None:
        raise AgentError("keep: expected a node of a Slurm job")
    with contextlib.closing(job_daemon.kept(root, job)):
        sys.stdin.read()
    return 0


def _runs(root: NodeRoot) -> list[dict[str, object]]:
    """Return the runs of this node, live ones and then new ones first, and how many more there are."""
    newest_first = [(run_processes.is_live(directory), directory) for directory in reversed(root.all_runs())]
    newest_first.sort(key=lambda each: not each[0])
    tasks = ((is_live, record.read_task(directory)) for is_live, directory in newest_first[:MOST_RUNS])
    listed: list[dict[str, object]] = [
        {"run": task.run, "host": task.host, "live": is_live, "record": task.record}
        for is_live, task in tasks
        if task is not None
    ]
    more = len(newest_first) - MOST_RUNS
    return [*listed, {"omitted": more}] if more > 0 else listed


def _node(root: NodeRoot, *, dry_run: bool) -> dict[str, object]:
    """Install the agent, and remove old archives. What dead runs left is removed by a start and by `clean`."""
    installed = install(root, dry_run=dry_run)
    removed = [] if dry_run else clean.prune_archives(root, version())
    return {
        "version": version(),
        "protocol": protocol.PROTOCOL,
        "root": root.path,
        "changed": installed or bool(removed),
        "agent": root.archive(version()),
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
        import shutil  # noqa: PLC0415 -- 2 ms, once per node and version

        aside = f"{target}.{os.getpid()}"
        shutil.copyfile(archive(), aside)
        os.chmod(aside, 0o600)
        os.replace(aside, target)
    return True
