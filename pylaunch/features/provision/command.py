"""`pylaunch provision`: bring every host of the inventory to the same known state."""

import time
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features import judge_settings
from pylaunch.features.provision import view
from pylaunch.features.provision.convergence import ALL_AT_ONCE, ProvisionOptions, batches
from pylaunch.features.provision.errors import provision_error
from pylaunch.features.provision.provisioning import (
    ProvisionPlan,
    ProvisionReport,
    look_ahead,
    plan_provision,
    plan_reset,
    provision,
    reset_hosts,
    roll_back,
)
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.text.quantity import counted
from pylaunch.terminal import console, document, options

EXAMPLES = """\b
Examples:
  pylaunch provision -i cluster.ini --plan
  pylaunch provision -i cluster.ini
  pylaunch provision -i cluster.ini --limit gpu[01-04] --roles python_env
  pylaunch provision -i cluster.ini --serial 1,10%,100%
"""


@dataclass(frozen=True)
class ProvisionFlags:
    """Flags of `provision` as they are parsed."""

    roles: str | None
    environment: Path | None
    plan_only: bool
    with_diff: bool
    deep: bool
    serial: str | None
    rollback: bool
    undo: bool
    undo_all: bool
    yes: bool
    ask_become_pass: bool

    def refuse_contradictions(self, limit: str | None) -> None:
        """Raises UsageError for flags that exclude each other, before any host is asked."""
        if self.rollback and limit is not None:
            raise UsageError("--rollback is for all hosts: they need the same environment", hint="omit --limit")
        if self.undo and (self.rollback or self.serial is not None):
            raise UsageError("--reset cannot be combined with --rollback or --serial")
        if (self.undo_all or self.yes) and not self.undo:
            raise UsageError("--all and --yes are for --reset")
        batches((), self.serial or ALL_AT_ONCE)

    def options(self) -> ProvisionOptions:
        """Return the flags that `provision` knows; asks for a password where they say so."""
        return ProvisionOptions(
            options.words(self.roles),
            self.environment,
            rollback=self.rollback,
            deep=self.deep,
            batch_sizes=self.serial or ALL_AT_ONCE,
            become_password=console.password("sudo password") if self.ask_become_pass else None,
            with_diff=self.with_diff,
        )


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--roles", metavar="ROLES", help="Only these roles, comma-separated: time_sync,firewall.")
@click.option(
    "--environment",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Python environment to install, instead of .pylaunch/environment next to the inventory.",
)
@click.option("--plan", "plan_only", is_flag=True, help="Show what differs and leave; nothing is changed.")
@click.option("--diff", "with_diff", is_flag=True, help="Show the lines of files that differ.")
@click.option("--deep", is_flag=True, help="Look at every file of the Python environment, not only at its records.")
@click.option("--serial", metavar="SIZES", help="Change hosts in batches, as 1,10%,100%; stop at the first that fails.")
@click.option("--rollback", is_flag=True, help="Go back to the Python environment that was locked before this one.")
@click.option("--reset", "undo", is_flag=True, help="Undo what the roles own; what others own stays.")
@click.option("--all", "undo_all", is_flag=True, help="With --reset: the Python environments too.")
@click.option("--yes", is_flag=True, help="With --reset: do not ask.")
@click.option("-K", "--ask-become-pass", is_flag=True, help="Ask for the password that sudo wants on the hosts.")
@options.as_json
def command(inventory: Path | None, limit: str | None, as_json: bool, **asked: Any) -> int:
    """Bring every host of the inventory to the same known state.

    Every host is compared with its manifest; Ansible then runs only the roles that differ, on the hosts where they do.
    A host that is as it was provisioned, with the inputs of today, costs one question.
    """
    began_at = time.monotonic()
    flags = ProvisionFlags(**asked)
    flags.refuse_contradictions(limit)
    cluster = load_cluster(inventory, limit=limit)
    plan = _planned(cluster, flags)
    if flags.undo:
        _reset(plan, flags)
        return ExitCode.DONE
    view.show_lacking(plan)
    if not flags.plan_only:
        report = _provision(_rolled_back(plan) if flags.rollback else plan)
    else:
        if not as_json:
            view.show_plan(plan)
        report = _looked_ahead(plan)
    if flags.with_diff and not as_json:
        view.show_lines(report.lines)
    if not flags.plan_only:
        view.show_summary(report, time.monotonic() - began_at)
    if as_json:
        document.show(view.as_json(report))
    report.raise_for_errors()
    return ExitCode.DONE


def _planned(cluster: Cluster, flags: ProvisionFlags) -> ProvisionPlan:
    chosen = flags.options()
    with console.working(f"asking {counted(len(cluster.hosts), 'host')}"):
        if flags.undo:
            return plan_reset(cluster, chosen)
        return plan_provision(cluster, chosen, judge_settings, on_note=console.say)


def _looked_ahead(plan: ProvisionPlan) -> ProvisionReport:
    """Print what Ansible, in check mode, would change on hosts that differ, and what would fail there."""
    with console.working("check mode") as redraw:
        lines = view.ProvisionView(redraw, is_check=True)
        report = look_ahead(plan, lines.show)
    lines.end()
    if report.result is not None and report.result.failures:
        error = provision_error(plan.request.cluster, report.result.failures)
        for line in error.evidence:
            console.say(f"  would fail: {line}")
        console.say(f"hint: {error.hint}")
    return report


def _provision(plan: ProvisionPlan) -> ProvisionReport:
    if not plan.found.to_change:
        return provision(plan, lambda _: None)
    with console.working("preparing") as redraw:
        lines = view.ProvisionView(redraw)
        report = provision(plan, lines.show)
    lines.end()
    return report


def _rolled_back(plan: ProvisionPlan) -> ProvisionPlan:
    _say_if_unreachable(plan)
    plan = roll_back(plan)
    console.say("rolled back to the environment that was locked before; --rollback again returns to the other one")
    return plan


def _say_if_unreachable(plan: ProvisionPlan) -> None:
    if plan.found.unreachable:
        console.say("nothing was changed: every host must be reached")


def _reset(plan: ProvisionPlan, flags: ProvisionFlags) -> None:
    _say_if_unreachable(plan)
    plan.raise_if_unreachable()
    hosts = fold(plan.request.cluster.names)
    what = ", ".join(plan.request.roles) or "all roles"
    if not flags.undo_all:
        what += ", without the Python environments (--all)"
    if not (flags.yes or flags.plan_only) and not console.confirm(f"undo on {hosts} what pylaunch made: {what}?"):
        console.say("nothing was changed")
        return
    lines = view.ProvisionView(is_check=flags.plan_only)
    try:
        reset_hosts(plan, lines.show, environments=flags.undo_all, dry_run=flags.plan_only)
    finally:
        lines.end()
    console.say(f"{hosts}: {'nothing was changed' if flags.plan_only else 'reset'}", style="green")
