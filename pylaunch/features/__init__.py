"""Features: rooms that no other code needs. The types of their doors are in `terminal/doors.py`.

A feature is removed with its folder here, its tests in `tests/features/<name>` and its line in FEATURES. Of the core,
only the command line and the Python API import this package, and no feature imports another one.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pylaunch.inventory import load_cluster
from pylaunch.model.setting import Circumstances, machines, of_interface, refuse_errors, settings_of, without_effect
from pylaunch.terminal.doors import ObserverOption, RunObserver, StartFile, Verb

if TYPE_CHECKING:
    from pylaunch.model.cluster import Cluster
    from pylaunch.model.job import JobSpec
    from pylaunch.model.outcome import Outcome
    from pylaunch.model.plan import RunPlan
    from pylaunch.model.setting import LintFinding, Setting
    from pylaunch.render import PlannedRun
    from pylaunch.terminal.doors import StartSource
    from pylaunch.terminal.options import Option

FEATURES = (
    "bench",
    "containers",
    "demo",
    "explain",
    "fetch",
    "gpus",
    "init",
    "job",
    "notify",
    "pages",
    "provision",
    "push",
    "render_files",
    "report",
    "slurm",
    "stacks",
    "variables",
    "verify",
)
"""Packages of this package. Their doors: VERBS, OBSERVER, START_FILE, NODES, JOB_OPTIONS, JUDGE."""


def imported(name: str) -> ModuleType:
    """Import a module without garbage collection. Nothing of a module becomes garbage before the process ends."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _packages() -> Iterator[ModuleType]:
    for name in FEATURES:
        yield imported(f"{__name__}.{name}")


def verbs() -> dict[str, Verb]:
    """Return the verbs of all features."""
    found: dict[str, Verb] = {}
    for package in _packages():
        of_feature: Mapping[str, Verb] = getattr(package, "VERBS", {})
        found |= of_feature
    return found


def judge_settings(settings: Sequence[Setting], circumstances: Circumstances) -> list[LintFinding]:
    """Return the findings of features about variables that a start or a provision sets."""
    modules: list[str] = [getattr(package, "JUDGE", "") for package in _packages()]
    return [finding for module in filter(None, modules) for finding in imported(module).judge(settings, circumstances)]


def refuse_variables(planned: PlannedRun, say: Callable[[str], None]) -> None:
    """Pass warnings about the variables of a planned run to `say`. Raises UsageError for those that cannot work."""
    plan, commands = planned.plan, planned.commands
    count, given = machines(node.host.rank_address for node in plan.nodes), settings_of(plan.job.env, "--env")
    findings = judge_settings(given, Circumstances(count)) if given else []
    refuse_errors(
        (*findings, *of_interface(plan, count), *without_effect(plan, [command for _, command in commands])), say
    )


def options(verb: str) -> tuple[Option, ...]:
    """Return the options of features that `verb` has: of the job, of its nodes, and of observers of its run."""
    doors = (*_doors("JOB_OPTIONS"), *_doors("NODES"))
    found: list[Option] = [*(each for door in doors for each in door.OPTIONS), *(each.option for each in _observers())]
    return tuple(each for each in found if verb in each.verbs)


def observers(given: dict[str, Any]) -> Callable[[], tuple[RunObserver, ...]]:
    """Take the values of the options of observers out of `given`, and return a function that makes those of one run.

    It raises UsageError for a value of an option.
    """
    values = [(each, given.pop(each.option.name, None)) for each in _observers()]
    return lambda: tuple(imported(each.module).observer(value) for each, value in values if value not in (None, ()))


def start_file(words: Sequence[str]) -> StartFile | None:
    """Return the door of the feature that starts the file which the first of `words` names; None for a program."""
    doors: list[StartFile | None] = [getattr(package, "START_FILE", None) for package in _packages()]
    return next((door for door in doors if door is not None and words and words[0].endswith(door.suffix)), None)


def job_options() -> tuple[Option, ...]:
    """Return the options of features that change the job of a start."""
    return tuple(each for door in _doors("JOB_OPTIONS") for each in door.OPTIONS)


def job_changes(given: dict[str, Any]) -> Callable[[JobSpec], JobSpec]:
    """Take the values of `job_options` out of `given`, and return what they change in a job. Raises UsageError.

    What is returned raises UsageError for a job that they do not fit. `given` has the other options of the verb, which
    may change.
    """
    changes: list[Callable[[JobSpec], JobSpec]] = []
    for door in _doors("JOB_OPTIONS"):
        names = [each.name for each in door.OPTIONS]
        if any(given[name] for name in names):
            changes.append(door.in_job(given))
        else:
            for name in names:
                del given[name]

    def changed(job: JobSpec) -> JobSpec:
        for change in changes:
            job = change(job)
        return job

    return changed


def start_source(given: dict[str, Any], *, has_inventory: bool) -> StartSource | None:
    """Take the values of options of nodes out of `given`, and return the source of nodes; None for the inventory.

    A feature is asked in a job of its scheduler, and where one of its options is given. Raises UsageError for a
    contradiction.
    """
    for door in _doors("NODES"):
        if os.environ.get(door.JOB_ID) or any(given[each.name] != each.default for each in door.OPTIONS):
            source: StartSource | None = door.start_source(given, has_inventory=has_inventory)
            return source
        for each in door.OPTIONS:
            del given[each.name]
    return None


def hosts_to_ask(inventory: Path | None, limit: str | None) -> Cluster:
    """Return the hosts to ask, by the same rule as for a start: those among which pylaunch runs, or the inventory's.

    Raises UsageError for hosts and devices of an inventory that are not among them.
    """
    found = (door.hosts_here(inventory, limit) for door in _doors("NODES"))
    here = next((cluster for cluster in found if cluster is not None), None)
    return load_cluster(inventory, limit=limit) if here is None else here


def end_nodes(plan: RunPlan, outcome: Outcome | None) -> None:
    """End what was allocated for a run whose first controller has ended; None: a person ends the run."""
    for door in _doors("NODES"):
        door.end_nodes(plan, outcome)


def _doors(kind: str) -> Iterator[ModuleType]:
    modules: Iterator[str] = (getattr(package, kind, "") for package in _packages())
    return (imported(module) for module in modules if module)


def _observers() -> list[ObserverOption]:
    found: list[ObserverOption | None] = [getattr(package, "OBSERVER", None) for package in _packages()]
    return [each for each in found if each is not None]
