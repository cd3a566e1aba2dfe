"""`pylaunch start job.toml`: the roles of a job file become runs."""

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click

from pylaunch import features
from pylaunch.base.dataclass import replace
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features import job_changes, job_options
from pylaunch.features.job import job_file
from pylaunch.features.job.controller import PartOver, PlannedPart, free_ports, run_job
from pylaunch.features.job.course import stop_order
from pylaunch.features.job.job_file import JobFile, JobRole, filled
from pylaunch.features.job.placement import Part, environment, own_places, placed, places, with_ports
from pylaunch.features.job.view import JobView, end_reason, job_id, outcome_data, plan_data, show_end, show_plan
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import JobSpec, RolePart
from pylaunch.model.outcome import Outcome
from pylaunch.model.text.quantity import counted
from pylaunch.render import plan_start
from pylaunch.runs.events import StartEvent
from pylaunch.store import runs
from pylaunch.terminal import console, document
from pylaunch.terminal.doors import RunEnding, RunObserver
from pylaunch.terminal.flags import sync
from pylaunch.terminal.flags.start import OPTIONS, StartFlags, requested
from pylaunch.terminal.options import InJobFile, current, text_of
from pylaunch.terminal.views.run_data import EventStream

DRY_RUN_PORTS = range(29599, 29399, -1)


def started(
    typed: StartFlags,
    inventory: Path | None,
    limit: str | None,
    observers: Callable[[], tuple[RunObserver, ...]],
) -> int:
    """Start the job of a file, whose name is the first of the words, and return the exit code.

    `observers` makes those of the job, which see its end.
    """
    context = click.get_current_context()
    defaults = given_here(context)
    job = read_job(typed.words)
    cluster = load_cluster(inventory, limit=limit)
    parts = placed(job, cluster, lambda pattern: _named(cluster, inventory, pattern))
    free = {host.rank_address: list(DRY_RUN_PORTS) for host in cluster.hosts} if typed.dry_run else free_ports(parts)
    parts = with_ports(parts, free)
    defaults["dry_run"] = typed.dry_run
    flags = {role.name: flags_of(role, context.command, defaults) for role in job.roles}
    planned = planned_parts(job, parts, {**places(parts), "job": runs.new_run_id()}, flags)
    if typed.dry_run:
        document.show(plan_data(job, planned))
        if not current().as_json:
            show_plan(job, planned)
        return ExitCode.DONE
    view = JobView(planned)
    streams = {each.part.name: EventStream(sys.stdout) for each in planned} if current().as_json else {}

    def show(part: PlannedPart, event: StartEvent | PartOver) -> None:
        view.show(part, event)
        if part.part.name in streams and not isinstance(event, PartOver):
            streams[part.part.name].on_event(event)

    with contextlib.ExitStack() as stack:
        if current().as_json:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        console.say(f"job {job.name} is {job_id(planned)}: {counted(len(planned), 'run')}")
        course = run_job(planned, show, view.changed)
    document.show(outcome_data(job, course, planned))
    show_end(job.name, course, planned)
    ending = course.ending
    if ending is None:
        return ExitCode.BUG
    reason = f"job {job.name}: {end_reason(course, planned)}"
    of_job = RunEnding(job_id(planned), Outcome(ending.status, reason, ending.at, (), {}))
    for observer in observers():
        observer.at_end(of_job)
    return ending.status.exit_code


def read_job(words: Sequence[str]) -> JobFile:
    """Return the job of the file that the first of `words` names, with the values of --set. Raises UsageError."""
    path, sets = _words(words)
    return job_file.read(text_of(path), path, sets, options_of_a_role())


def options_of_a_role() -> list[str]:
    """Return the options of `start` that a role may have, by parameter name."""
    return [each.name for each in (*OPTIONS, *job_options()) if each.in_job_file is InJobFile.ROLE]


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


def given_here(context: click.Context) -> dict[str, Any]:
    """Return the options of the command line, which hold for every role. Raises UsageError for those that cannot."""
    given = [each for each in (*OPTIONS, *features.options("start")) if _is_typed(context, each.name)]
    if refused := [each.typed for each in given if each.in_job_file is InJobFile.NONE]:
        hint = "omit it; the job file says what each role has"
        if "--detach" in refused:
            hint = "the controller starts and ends roles as long as the job runs: nohup pylaunch start … &"
        raise UsageError(f"{', '.join(refused)}: not for a job of several roles", hint=hint)
    return {each.name: context.params[each.name] for each in given if each.in_job_file is InJobFile.ROLE}


def _is_typed(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


RoleFlags = tuple[StartFlags, Callable[[JobSpec], JobSpec]]
"""Flags of a role, and what options of features change in its job."""


def planned_parts(
    job: JobFile,
    parts: Sequence[Part],
    everywhere: Mapping[str, str],
    flags: Mapping[str, RoleFlags],
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
        given, in_job = flags[role.name]
        env = filled(given.env, values, f"[roles.{role.name}] env")
        words = filled(role.program, values, where)
        mine = [f"{name}={value}" for name, value in environment(part, parts, job_id).items()]
        given = replace(given, words=words, env=(*mine, *env), nodes=len(part.cluster.hosts), ends_with_controller=True)
        try:
            asked = requested(given, os.environ, tree_of)
            remarks: list[str] = []
            place = RolePart(job_id, job.name, role.name, part.name, order[role.name])
            planned = plan_start(
                part.cluster, replace(in_job(asked.job), part=place), runs.new_run_id(), remarks.append
            )
            features.refuse_variables(planned, remarks.append)
            notes |= dict.fromkeys(f"{role.name}: {line}" for line in remarks)
        except UsageError as error:
            error.message = f"[roles.{role.name}] {error.message}"
            raise
        found.append(PlannedPart(part, planned, asked.options()))
    for note in notes:  # Replicas have the same ones.
        console.say(note)
    return found


def flags_of(role: JobRole, command: click.Command, defaults: Mapping[str, Any]) -> RoleFlags:
    """Return the flags of a role: those of the command line, and above them those of the file. Raises UsageError.

    `command` is `start`, whose options are keys of a role.
    """
    switches = {each.name for each in command.params if isinstance(each, click.Option) and each.is_flag}
    try:
        names = click.get_current_context().help_option_names  # `command` remembers them.
        context = command.make_context("start", _argv(role.options, switches), help_option_names=names)
        own = {name: context.params[name] for name in role.options}
        of_features = {each.name for each in job_options()}
        for name, value in defaults.items():
            if isinstance(value, tuple) and name not in of_features:
                own[name] = (*value, *own.get(name, ()))
            else:
                own.setdefault(name, value)
        own = {**{name: context.params[name] for name in of_features}, **own}
        in_job = job_changes(own)
        return StartFlags(**{name: own[name] for name in own.keys() - of_features}), in_job
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
