"""The job that the flags of a start request, and the options of its start."""

from collections.abc import Callable, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import UsageError
from pylaunch.model.job import JobSpec
from pylaunch.model.secret import Secrets
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.start import StartOptions
from pylaunch.runs.start_checks import at_start_checks
from pylaunch.runs.sync.tree import Tree
from pylaunch.terminal.flags import environment, program, sync
from pylaunch.terminal.flags.program import Program
from pylaunch.terminal.flags.start import StartFlags


@dataclass(frozen=True)
class Requested:
    """Request of the flags; nothing in it depends on the nodes."""

    flags: StartFlags
    """With the options of the command line of another launcher."""

    program: Program
    job: JobSpec
    options: StartOptions


def requested(
    typed: StartFlags,
    ours: Mapping[str, str],
    tree_of: Callable[[sync.SyncFlags], Tree | None] = sync.given,
) -> Requested:
    """Return the job of `typed`; `ours` is the environment of pylaunch, `tree_of` reads the tree to ship.

    Raises UsageError for what cannot be started.
    """
    tree = tree_of(sync.of(typed))
    try:
        chosen, flags = program.understood(typed, tree)
    except UsageError as error:
        if typed.sync is not None and error.hint is not None:
            ship = pylaunch("start", "--sync", typed.sync)
            error.hint = error.hint.replace("pylaunch start", ship)
        raise
    env = environment.given(flags, ours)
    chosen = program.with_variables(chosen, flags.framework, env.plain)
    job = flags.job(chosen.words, chosen.framework, env, tree, is_unread=chosen.is_unread)
    return Requested(flags, chosen, job, start_options(flags, job, env.secrets, tree))


def start_options(flags: StartFlags, job: JobSpec, secrets: Secrets, tree: Tree | None) -> StartOptions:
    """Return the options of a start with `flags` that are no part of its job. Raises UsageError."""
    return StartOptions(
        checks=at_start_checks(skip=job.skipped_checks),
        secrets=secrets,
        tree=tree,
        turn=flags.turn(),
        ends_leftovers=flags.stale == "kill",
    )
