"""`pylaunch provision`: bring every host of the inventory to the same known state."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pylaunch.cli import console
from pylaunch.cli.flags import options
from pylaunch.cli.views import document, hints
from pylaunch.cli.views.listing import duration
from pylaunch.cli.views.live_area import working
from pylaunch.errors import ExitCode, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.argv import pylaunch
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import alike, fold
from pylaunch.provision.batches import batches
from pylaunch.provision.desired import Content
from pylaunch.provision.differences import FileDifference, file_differences
from pylaunch.provision.drift import Change
from pylaunch.provision.environment import previous_environment, swap_with_previous
from pylaunch.provision.errors import failure_error, no_python_error, remaining_error, unreachable_error
from pylaunch.provision.progress import TaskFollower
from pylaunch.provision.reset import Reset, reset
from pylaunch.provision.state import PACKAGE_LOCK
from pylaunch.provision.variables import lint_variables
from pylaunch.provision.workflow import Convergence, ProvisionRequest, ProvisionSurvey, converge_in_batches, survey
from pylaunch.store import content
from pylaunch.store.paths import project_directory
from pylaunch.transport.runner import Progress
from pylaunch.workflows.variables import refuse_errors

EXAMPLES = """\b
Examples:
  pylaunch provision -i cluster.ini --plan
  pylaunch provision -i cluster.ini
  pylaunch provision -i cluster.ini --limit gpu[01-04] --roles python_env
  pylaunch provision -i cluster.ini --serial 1,10%,100%
"""


@click.command(epilog=EXAMPLES)
@options.inventory
@options.limit
@click.option("--roles", metavar="ROLES", help="Only these roles, comma-separated: time_sync,firewall.")
@click.option(
    "--environment",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Python environment to install, instead of .pylaunch/environment next to the inventory.",
)
@click.option("--plan", "--check", "plan_only", is_flag=True, help="Show what differs and leave; nothing is changed.")
@options.exit_code
@click.option("--diff", "with_diff", is_flag=True, help="Show the lines of files that differ.")
@click.option("--deep", is_flag=True, help="Look at every file of the Python environment, not only at its records.")
@click.option("--serial", metavar="SIZES", help="Change hosts in batches, as 1,10%,100%; stop at the first that fails.")
@click.option("--rollback", is_flag=True, help="Go back to the Python environment that was locked before this one.")
@click.option("--reset", "undo", is_flag=True, help="Take back what the roles own; what others own stays.")
@click.option("--all", "undo_all", is_flag=True, help="With --reset: the Python environments too.")
@click.option("--yes", is_flag=True, help="With --reset: do not ask.")
@click.option("-K", "--ask-become-pass", is_flag=True, help="Ask for the password that sudo wants on the hosts.")
@options.as_json
def command(
    inventory: Path | None, limit: str | None, plan_only: bool, as_json: bool, with_diff: bool, **asked: Any
) -> int:
    """Bring every host of the inventory to the same known state.

    Every host is asked what it is; Ansible then runs only the roles that differ, on the hosts where they do. A host
    that is as it should be costs one question.
    """
    began_at = time.monotonic()
    _refuse_what_makes_no_sense(limit, asked)
    if asked["exit_code"] and not plan_only:
        raise UsageError("--exit-code goes with --plan", hint=pylaunch("provision", "--plan", "--exit-code"))
    cluster = load_cluster(inventory, limit=limit)
    request = _request(cluster, asked)
    with working(f"asking {_hosts(len(cluster.hosts))}"):
        found = survey(request)
    if asked["undo"]:
        _reset(request, found, environments=asked["undo_all"], sure=asked["yes"], check=plan_only)
        return ExitCode.DONE
    refuse_errors(lint_variables(found.desired.hosts), console.say)
    _say_what_is_left_out(found, cluster)
    if asked["rollback"] and not plan_only:
        request = _rolled_back(request, found, _environment(cluster, asked))
    differences = file_differences(cluster, found) if plan_only or with_diff else {}
    if plan_only:
        _show_plan(found, differences, as_json=as_json)
    if with_diff and not as_json:
        _show_lines(differences)
    if plan_only:
        done = None
    else:
        done = _converge(request, found, asked["serial"]) if found.to_change else None
        _say_summary(found, done, time.monotonic() - began_at)
        if as_json:
            document.show(_report(found, done, differences))
    _raise_what_went_wrong(found, done, total=len(cluster.hosts))
    return ExitCode.DIFFERENT if asked["exit_code"] and found.to_change else ExitCode.DONE


def _refuse_what_makes_no_sense(limit: str | None, asked: Mapping[str, Any]) -> None:
    if asked["rollback"] and limit is not None:
        raise UsageError("--rollback is for all hosts: they are to have the same environment", hint="leave out --limit")
    if asked["undo"] and (asked["rollback"] or asked["serial"] is not None):
        raise UsageError("--reset goes with neither --rollback nor --serial")
    if (asked["undo_all"] or asked["yes"]) and not asked["undo"]:
        raise UsageError("--all and --yes are for --reset")
    batches((), asked["serial"] or "100%")


def _request(cluster: Cluster, asked: Mapping[str, Any]) -> ProvisionRequest:
    if not cluster.sources:
        raise UsageError(
            "provision changes machines, so it wants an inventory that names them",
            hint="pylaunch provision -i cluster.ini; for this machine, the line: localhost ansible_connection=local",
        )
    extra_vars: dict[str, object] = {"pylaunch_project_directory": str(project_directory(Path(cluster.sources[0])))}
    roles = tuple(role.strip() for role in (asked["roles"] or "").split(",") if role.strip())
    if asked["environment"] is not None:
        extra_vars["python_env_source"] = str(asked["environment"].absolute())
    if asked["rollback"]:
        roles = ("python_env",)
        extra_vars["python_env_source"] = str(previous_environment(_environment(cluster, asked)))
    password = console.password("sudo password") if asked["ask_become_pass"] else None
    return ProvisionRequest(
        cluster,
        Content(content.playbook("site"), content.roles_directory()),
        roles=roles,
        extra_vars=extra_vars,
        become_password=password,
        deep=asked["deep"],
    )


def _environment(cluster: Cluster, asked: Mapping[str, Any]) -> Path:
    directory: Path = asked["environment"] or project_directory(Path(cluster.sources[0])) / "environment"
    return directory.absolute()


def _say_what_is_left_out(found: ProvisionSurvey, cluster: Cluster) -> None:
    left_out = {
        host: (tuple(role for role in found.desired.roles if role not in {state.role for state in states}),)
        for host, states in found.desired.hosts.items()
    }
    for hosts, roles in alike(left_out):
        if roles:
            console.say(f"{hosts}: without {', '.join(roles)} (the inventory sets pylaunch_unprivileged)")
    wanted = [state for states in found.desired.hosts.values() for state in states if state.role == "python_env"]
    if wanted and not any(state.environments for state in wanted):
        console.say(hints.completed("python_env: no environment yet; make one: pylaunch env lock requirements.txt"))


def _converge(request: ProvisionRequest, found: ProvisionSurvey, serial: str | None) -> Convergence:
    follower = TaskFollower()

    def announce(part: ProvisionSurvey) -> None:
        _say_last(follower)
        console.say(f"{fold(part.to_change)}: {', '.join(part.roles_to_run)}")
        for hosts, holder in alike({host: (holder,) for host, holder in part.waiting_for_packages.items()}):
            console.say(f"{hosts}: packages wait for {PACKAGE_LOCK}, which {holder} holds; for 5 minutes at most")

    with working("starting Ansible") as redraw:
        done = converge_in_batches(
            request,
            found,
            batches(found.to_change, serial or "100%"),
            on_batch=announce,
            on_progress=_shown(follower, redraw),
        )
    _say_last(follower)
    return done


def _say_last(follower: TaskFollower) -> None:
    if (last := follower.end()) is not None and last.report:
        console.say(f"  {last.report}")


def _reset(request: ProvisionRequest, found: ProvisionSurvey, *, environments: bool, sure: bool, check: bool) -> None:
    _refuse_to_leave_behind(found)
    hosts = fold(request.cluster.names)
    what = ", ".join(request.roles) or "all roles"
    if not environments:
        what += ", without the Python environments (--all)"
    if not (sure or check) and not console.confirm(f"take back what pylaunch made on {hosts}: {what}?"):
        console.say("nothing was changed")
        return
    follower = TaskFollower()
    undo = Reset(request, content.playbook("reset"), environments=environments, check=check)
    result = reset(undo, on_progress=_shown(follower, None))
    _say_last(follower)
    if result.failures:
        raise failure_error(result.failures, len(request.cluster.hosts))
    console.say(f"{hosts}: {'nothing was changed' if check else 'taken back'}", style="green")


def _refuse_to_leave_behind(found: ProvisionSurvey) -> None:
    if found.unreachable:
        console.say("nothing was changed: every host must be reached")
        raise unreachable_error(found.unreachable, len(found.answers))


def _rolled_back(request: ProvisionRequest, found: ProvisionSurvey, directory: Path) -> ProvisionRequest:
    """From here on the environment before is the one to have. Not while a host would be left behind."""
    _refuse_to_leave_behind(found)
    swap_with_previous(directory)
    console.say("the environment locked before is the one to have again; --rollback once more comes back")
    return replace(request, extra_vars={**request.extra_vars, "python_env_source": str(directory)})


def _shown(follower: TaskFollower, redraw: Callable[[str], None] | None) -> Callable[[Progress], None]:
    def show(event: Progress) -> None:
        ended = follower.add(event, time.monotonic())
        if ended is not None and ended.report:
            console.say(f"  {ended.report}")
        if redraw is not None and follower.current is not None:
            redraw(follower.current.running)

    return show


def _show_plan(found: ProvisionSurvey, differences: Mapping[str, Sequence[FileDifference]], *, as_json: bool) -> None:
    if as_json:
        document.show(_report(found, None, differences))
        return
    counted = {
        host: [_counted(change, differences.get(host, ())) for change in changes]
        for host, changes in found.changes.items()
    }
    rows = [(hosts, change.role, change.subject, change.difference) for hosts, change in alike(counted)]
    rows += [(host, "", "python", f"no interpreter at {each.path}") for host, each in found.without_python.items()]
    if rows:
        console.table(("hosts", "role", "what", "difference"), rows)
    elif found.changes:
        console.say(f"{_hosts(len(found.changes))}: nothing to change")
    _say_notes(found)


def _raise_what_went_wrong(found: ProvisionSurvey, done: Convergence | None, *, total: int) -> None:
    """The first of the errors there are: a failed task, a host that resists, a host out of reach."""
    unreachable = found.unreachable
    if done is not None:
        if done.result.failures:
            raise failure_error(done.result.failures, total)
        if any(done.after.changes.values()):
            raise remaining_error(done.after.changes)
        if done.after.without_python:
            raise no_python_error(done.after.without_python, total)
        unreachable |= done.after.unreachable
    if unreachable:
        raise unreachable_error(unreachable, total)


def _counted(change: Change, differences: Sequence[FileDifference]) -> Change:
    """The change with how many lines come and go, where lines are what differs."""
    for each in differences:
        if (each.role, each.path) == (change.role, change.subject) and change.difference.endswith(" differs"):
            return replace(change, difference=f"{change.difference}, {each.count}")
    return change


def _show_lines(differences: Mapping[str, Sequence[FileDifference]]) -> None:
    for hosts, difference in alike(differences):
        console.data(
            "\n".join([f"{hosts}: {difference.role}: {difference.path} {difference.count}", *difference.lines])
        )


def _say_summary(found: ProvisionSurvey, done: Convergence | None, seconds: float) -> None:
    counted: dict[str, list[str]] = {}
    for host, changes in done.after.changes.items() if done is not None else ():
        if not changes:
            roles = Counter(change.role for change in found.changes.get(host, ()))
            text = ", ".join(f"{role} {count} changed" for role, count in roles.items()) or "provisioned"
            counted.setdefault(text, []).append(host)
    for text, hosts in counted.items():
        console.say(f"{fold(hosts)}: {text}; ok (in {duration(seconds)})", style="green")
    if done is not None:
        _say_notes(done.after)
        if done.untouched:
            console.say(f"not touched: {fold(done.untouched)}", style="yellow")
    if unchanged := [host for host, changes in found.changes.items() if not changes]:
        kept = {note for host in unchanged for note in found.notes[host]}
        told = f" ({len(kept)} notes: --plan)" if kept else ""
        console.say(f"{_hosts(len(unchanged))}: nothing to change{told}")


def _say_notes(found: ProvisionSurvey) -> None:
    for hosts, note in alike(found.notes):
        console.say(f"note: {hosts}: {note.role}: {note.text}")


def _report(
    found: ProvisionSurvey, done: Convergence | None, differences: Mapping[str, Sequence[FileDifference]]
) -> dict[str, object]:
    """All that is known of every host, for `--json`."""
    failures = {failure.host: failure.message for failure in done.result.failures} if done is not None else {}
    latest = {**found.notes, **(done.after.notes if done is not None else {})}
    reasons = {host: why.reason for host, why in found.unreachable.items()}
    if done is not None:
        reasons |= {host: why.reason for host, why in done.after.unreachable.items()}
    known = {
        host: {
            "has_python": host not in found.without_python,
            "differences": [
                {"role": change.role, "subject": change.subject, "difference": change.difference}
                for change in found.changes.get(host, ())
            ],
            "remaining": [change.subject for change in done.after.changes.get(host, ())] if done is not None else None,
            "notes": [{"role": note.role, "text": note.text} for note in latest.get(host, ())],
            "failure": failures.get(host),
            "lines": [{"path": each.path, "lines": list(each.lines)} for each in differences.get(host, ())],
        }
        for host in found.answers
        if host not in found.unreachable
    }
    return {"is_plan": done is None, "hosts": document.hosts(found.answers, reasons, known)}


def _hosts(count: int) -> str:
    return f"{count} host" if count == 1 else f"{count} hosts"
