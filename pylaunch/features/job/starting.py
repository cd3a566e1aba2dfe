"""`pylaunch start job.toml`: the roles of a job file become runs."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import fields, replace
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features import job_changes, job_option_names
from pylaunch.features.job import job_file
from pylaunch.features.job.controller import PartOver, PlannedPart, free_ports, run_job
from pylaunch.features.job.course import stop_order
from pylaunch.features.job.job_file import JobFile, JobRole, ReadyBy, filled
from pylaunch.features.job.placement import Part, environment, own_places, placed, places, with_ports
from pylaunch.features.job.view import JobView, end_reason, job_id, outcome_data, plan_data, show_end, show_plan
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import JobSpec, RolePart
from pylaunch.model.outcome import Outcome
from pylaunch.model.setting import Judge
from pylaunch.runs.start import StartOptions, plan_start
from pylaunch.runs.start_events import RanksReleased, StartEvent
from pylaunch.store import runs
from pylaunch.store.paths import job_log
from pylaunch.terminal import console, document, hints
from pylaunch.terminal.detaching import wait_until_well
from pylaunch.terminal.doors import Observing, RunEnding
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.requested import requested
from pylaunch.terminal.flags.start import StartFlags
from pylaunch.terminal.invocation import current
from pylaunch.terminal.options import text_of
from pylaunch.terminal.views.live import counted
from pylaunch.terminal.views.start import lines
from pylaunch.transport.background import Background, Foreground, fork_to_background

NOT_IN_A_ROLE = frozenset({
    "words", "nodes", "dry_run", "detach", "save_logs", "queue", "queue_timeout", "kill_on_disconnect",
    "in_job", "choice",
})  # fmt: skip
"""Options of `start` that are about a whole start, or that a job of several roles does not have."""

OF_THE_JOB = frozenset({"words", "dry_run", "detach", "inventory", "hosts", "limit", "as_json", "scheduler"})
"""Options of `start` that a job has as a whole."""

DRY_RUN_PORTS = range(29599, 29399, -1)


def started(typed: StartFlags, inventory: Path | None, limit: str | None, judge: Judge, observing: Observing) -> int:
    """Start the job of a file, whose name is the first of the words, and return the exit code.

    `judge` judges the variables of each role; `observing` has observers for each run.
    """
    context = click.get_current_context()
    defaults = given_here(context, observing.options)
    job = read_job(typed.words)
    cluster = load_cluster(inventory, limit=limit)
    parts = placed(job, cluster, lambda pattern: _named(cluster, inventory, pattern))
    free = {host.rank_address: list(DRY_RUN_PORTS) for host in cluster.hosts} if typed.dry_run else free_ports(parts)
    parts = with_ports(parts, free)
    flags = flags_of_roles(job, context.command, {**defaults, "dry_run": typed.dry_run}, job_changes)
    planned = planned_parts(job, parts, {**places(parts), "job": runs.new_run_id()}, flags, judge)
    if typed.dry_run:
        document.show(plan_data(job, planned))
        if not current().as_json:
            show_plan(job, planned)
        return ExitCode.DONE
    background = _in_background(job_log(job_id(planned))) if typed.detach else None
    if isinstance(background, Background):
        return _at_terminal(job, planned, background)
    view = JobView(planned, shows_output=background is None)
    with contextlib.ExitStack() as stack:
        if current().as_json:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        console.say(f"job {job.name} is {job_id(planned)}: {counted(len(planned), 'run')}")
        watched = [replace(each, observers=observing.new()) for each in planned]
        if background is not None:
            watched = [replace(each, options=_without_output(each)) for each in watched]

        def show(part: PlannedPart, event: StartEvent | PartOver) -> None:
            view.show(part, event)
            if background is not None and isinstance(event, RanksReleased):
                background.let_go()

        ended = run_job(watched, show, view.changed)
    document.show(outcome_data(job, ended, planned))
    show_end(job.name, ended, planned)
    ending = ended.course.ending
    if ending is None:
        return ExitCode.BUG
    of_job = RunEnding(job_id(planned), Outcome(ending.status, end_reason(ended, planned), ending.at, (), {}))
    of_job.files.extend(ended.files)
    for observer in observing.new():
        observer.at_end_of_job(job.name, of_job)
    return ending.status.exit_code


def _in_background(log: Path) -> Background | Foreground:
    """Continue in a child without a terminal; this process waits at the terminal until ranks run."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    prune(log.parent)
    log.touch(mode=0o600)
    half = fork_to_background(log)
    if isinstance(half, Foreground):
        with contextlib.suppress(OSError):  # A file system without locks.
            fcntl.flock(os.open(log, os.O_RDONLY), fcntl.LOCK_SH)  # As long as this process lives.
        current().as_json = False  # The half at the terminal prints the document.
    return half


def prune(directory: Path, keep: int = runs.KEPT) -> None:
    """Remove the oldest logs beyond `keep`, except those of jobs that run, which hold a lock."""
    logs: list[tuple[float, Path]] = []
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):  # Another start prunes at the same time.
            logs.append((path.stat().st_mtime, path))
    for _, old in sorted(logs)[:-keep]:
        with contextlib.suppress(OSError), old.open("r+b") as file:  # Locked, removed, or no locks there.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old.unlink()


def _at_terminal(job: JobFile, planned: Sequence[PlannedPart], background: Background) -> int:
    name = job_id(planned)
    code = wait_until_well(background, job_log(name))
    document.show(plan_data(job, planned))
    if code is not None:
        return code
    console.say(f"job {name} continues in the background; its events and its end: {job_log(name)}")
    hints.say(f"pylaunch status {name}", f"pylaunch logs -f {name}", f"pylaunch stop {name}")
    return ExitCode.DONE


def _without_output(planned: PlannedPart) -> StartOptions:
    """Return the options of a part whose output nobody reads here, unless it says when the part is ready."""
    ready = planned.part.role.ready
    return replace(planned.options, relays_output=ready is not None and ready.by is ReadyBy.OUTPUT)


def read_job(words: Sequence[str]) -> JobFile:
    """Return the job of the file that the first of `words` names, with the values of --set. Raises UsageError."""
    path, sets = _words(words)
    return job_file.read(text_of(path), path, sets, options_of_a_role())


def options_of_a_role() -> list[str]:
    """Return the options of `start` that a role may have, by parameter name."""
    names = (*(each.name for each in fields(StartFlags)), *job_option_names())
    return [name for name in names if name not in NOT_IN_A_ROLE]


def _words(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the file and the values of --set. Raises UsageError for other words."""
    path, *rest = words
    sets = []
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if option != "--set" or not (equals or rest):
            raise UsageError(
                f"{word} after {path}: expected --set ROLE.KEY=VALUE", hint="options of start come before it"
            )
        sets.append(value if equals else rest.pop(0))
    return path, tuple(sets)


def _named(cluster: Cluster, inventory: Path | None, pattern: str) -> list[str]:
    """Return the hosts of `cluster` that match a pattern of a role. Raises UsageError where there are none."""
    there = set(load_cluster(inventory, limit=pattern).names)
    found = [name for name in cluster.names if name in there]
    if not found:
        raise UsageError(f"hosts = {pattern!r}: --limit leaves none of them")
    return found


def given_here(context: click.Context, elsewhere: frozenset[str]) -> dict[str, Any]:
    """Return the options of the command line, which hold for every role. Raises UsageError for those that cannot."""
    names = [each.name for each in context.command.params if each.name is not None]
    typed_here = {name for name in names if _is_typed(context, name)} - OF_THE_JOB - elsewhere
    refused = sorted(typed_here.difference(options_of_a_role()))
    if refused:
        shown = ", ".join(f"--{name.replace('_', '-')}" for name in refused)
        raise UsageError(
            f"{shown}: not for a job of several roles", hint="omit it; the job file says what each role has"
        )
    return {name: context.params[name] for name in typed_here}


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def planned_parts(
    job: JobFile,
    parts: Sequence[Part],
    everywhere: Mapping[str, str],
    flags: Mapping[str, StartFlags],
    judge: Judge,
) -> list[PlannedPart]:
    """Plan the run of each part. Raises UsageError with the role.

    `everywhere` are the values of {roles.…} and {job}; `flags` are those of each role.
    """
    job_id, order = everywhere["job"], stop_order(job.roles)
    found: list[PlannedPart] = []
    notes: dict[str, None] = {}
    tree_of = cache(sync.given)
    for part in parts:
        role, where = part.role, f"[roles.{part.role.name}] program"
        values = {**everywhere, **own_places(part, job_id)}
        given = flags[role.name]
        env = filled(given.env, values, f"[roles.{role.name}] env")
        words = filled(role.program, values, where)
        mine = [f"{name}={value}" for name, value in environment(part, parts, job_id).items()]
        given = replace(given, words=words, env=(*mine, *env), nodes=len(part.cluster.hosts), kill_on_disconnect=True)
        try:
            asked = requested(given, os.environ, (), tree_of)
            events: list[StartEvent] = []
            place = RolePart(job_id, job.name, role.name, part.name, order[role.name])
            planned = plan_start(part.cluster, replace(asked.job, part=place), judge, events.append)
            notes |= dict.fromkeys(f"{role.name}: {line}" for event in events for line in lines(event))
        except UsageError as error:
            error.message = f"[roles.{role.name}] {error.message}"
            raise
        found.append(PlannedPart(part, planned, asked.options))
    for note in notes:  # Replicas have the same ones.
        console.say(note)
    return found


def flags_of_roles(
    job: JobFile,
    command: click.Command,
    defaults: Mapping[str, Any],
    changes: Callable[[dict[str, Any]], Callable[[JobSpec], JobSpec]],
) -> dict[str, StartFlags]:
    """Return the flags of each role; `command` is `start`, whose options are keys of a role. Raises UsageError.

    `changes` returns what the options of features change in a job.
    """
    return {role.name: _flags(role, command, defaults, changes) for role in job.roles}


def _flags(
    role: JobRole,
    command: click.Command,
    defaults: Mapping[str, Any],
    changes: Callable[[dict[str, Any]], Callable[[JobSpec], JobSpec]],
) -> StartFlags:
    """Return the flags of a role: those of the command line, and above them those of the file."""
    switches = {each.name for each in command.params if isinstance(each, click.Option) and each.is_flag}
    try:
        names = click.get_current_context().help_option_names  # `command` remembers them.
        context = command.make_context("start", _argv(role.options, switches), help_option_names=names)
        own = {name: context.params[name] for name in role.options}
        of_features = job_option_names()
        for name, value in defaults.items():
            if isinstance(value, tuple) and name not in of_features:
                own[name] = (*value, *own.get(name, ()))
            else:
                own.setdefault(name, value)
        own = {**{name: context.params[name] for name in of_features}, **own, "own": frozenset(role.options)}
        in_job = changes(own)
        return StartFlags(**{name: own[name] for name in own.keys() - {*of_features, "own"}}, in_job=in_job)
    except click.ClickException as error:
        raise UsageError(f"[roles.{role.name}] {error.format_message()}") from None
    except UsageError as error:
        error.message = f"[roles.{role.name}] {error.message}"
        raise


def _argv(options: Mapping[str, Any], switches: Collection[str | None]) -> list[str]:
    """Return the options of a role as words. Raises UsageError for values that no option has."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, Mapping):
            value = [f"{key}={each}" for key, each in value.items()]
        if isinstance(value, bool) and name in switches:
            words += [option] if value else []
        elif isinstance(value, list):
            words += [f"{option}={each}" for each in value]
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            words.append(f"{option}={value}")
        else:
            expected = "true or false" if name in switches else "a text, a number or a list"
            raise UsageError(f"{name.replace('_', '-')} = {value!r}: expected {expected}")
    return words
