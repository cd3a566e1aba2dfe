"""`pylaunch check`: would a run work, and if not, why and what to type."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.base.dataclass import dataclass, fields
from pylaunch.checks import suite
from pylaunch.checks.suite import NO_SCRIPT, Needs, Result, check, select
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features import hosts_to_ask
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.secret import Secrets
from pylaunch.model.text.quantity import counted
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.start import AUTO, Environment, StartFlags, options_of, requested
from pylaunch.terminal.options import GroupedCommand, added
from pylaunch.terminal.views import findings

EXAMPLES = """\b
Examples:
  pylaunch check -i cluster.ini
  pylaunch check -i cluster.ini --checkpoint-dir /data/ckpt -- train.py --config base.yaml
  pylaunch check -i cluster.ini --sync . -- train.py
  pylaunch check -i cluster.ini --only storage,python_env.libraries --json
"""


@dataclass(frozen=True, kw_only=True)
class CheckFlags:
    """Flags of `check` beside those of the job, as they are parsed."""

    only: str | None
    files: tuple[str, ...]
    checkpoint_dir: str
    infiniband: bool


@click.command(cls=GroupedCommand, context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option(
    "--only", metavar="IDS", help="Only these checks or subjects, comma-separated: storage,python_env.python."
)
@added((*options_of("check"), *features.options("check")))
@click.option(
    "--file", "files", multiple=True, metavar="FILE", help="A file that must be equal everywhere; repeatable."
)
@click.option("--checkpoint-dir", default="", metavar="DIR", help="Directory that the run writes its checkpoints to.")
@click.option("--infiniband", is_flag=True, help="The run needs InfiniBand or RoCE on every host.")
@options.as_json
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT [ARGS]...]")
def command(inventory: Path | None, limit: str | None, words: tuple[str, ...], as_json: bool, **asked: Any) -> int:
    """Ask every host whether a run would work, and if not, why and what to type.

    With SCRIPT, also what that run needs: interpreter, libraries, code and files that must be the same everywhere.
    Changes nothing. Each check is explained by pylaunch help checks. Exit code 3 when something fails.
    """
    in_job = features.job_changes(asked)
    flags = CheckFlags(**{each.name: asked.pop(each.name) for each in fields(CheckFlags)})
    typed = StartFlags(words=words, **asked)
    checks = select(suite.CHECKS, only=options.words(flags.only), skip=options.words(typed.skip))
    cluster = hosts_to_ask(inventory, limit)
    job = in_job(_job(typed))
    _refuse_relative(flags.files, typed)
    needs = Needs(flags.files, flags.checkpoint_dir, flags.infiniband, typed.workdir or "")
    with console.working(f"asking {counted(len(cluster.hosts), 'host')}"):
        found = check(cluster, job, needs, checks)
    if job.sync is not None:
        console.say(f"the code is that of {job.sync.directory}: {sync.described(job.sync)}")
    if as_json:
        document.show(findings.as_json(found))
    else:
        _show(found)
    return ExitCode.CLUSTER_NOT_READY if found.failed else ExitCode.DONE


def _job(typed: StartFlags) -> JobSpec:
    """Return the job that `start` would plan with the same words; without any, one that only names the hosts."""
    if typed.words:
        return requested(typed, os.environ).job
    tree = None if typed.sync is None else sync.given(typed.sync, typed.sync_exclude)
    framework = Framework.DIRECT if typed.framework == AUTO else Framework(typed.framework)
    return typed.job(NO_SCRIPT, framework, Environment({}, Secrets()), tree, is_unread=False)


def _refuse_relative(files: Sequence[str], typed: StartFlags) -> None:
    """Raise UsageError for files whose directory is not known on the hosts."""
    relative = [each for each in files if not each.startswith("/")]
    if relative and typed.sync is not None:
        raise UsageError(
            f"--file {relative[0]}: with --sync, files of the tree are the same everywhere; expected an absolute path"
        )
    if relative and not typed.words and not typed.workdir:
        raise UsageError(f"--file {relative[0]}: relative paths start at the working directory", hint="--workdir DIR")


def _show(found: Result) -> None:
    findings.show(found.findings)
    console.say(findings.summary(found), style="red" if found.failed else "green")
