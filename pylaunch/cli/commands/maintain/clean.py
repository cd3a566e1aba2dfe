"""`pylaunch clean`: remove leftovers of runs that are over, and processes whose launcher is gone."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pylaunch.base.dataclass import asdict, dataclass
from pylaunch.checks.occupancy.clean import CleanReport, clean_hosts, end_stale
from pylaunch.checks.occupancy.look import Occupant, Swept
from pylaunch.errors import ExitCode
from pylaunch.features import hosts_to_ask
from pylaunch.model.diagnosis.host_errors import alike_errors, of_hosts
from pylaunch.model.hostset import alike, fold
from pylaunch.model.job import USUAL_PORT
from pylaunch.model.text.argv import pylaunch
from pylaunch.runs.proof import prove_runs
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.views.processes import as_data, described_process, show_proofs


@dataclass(frozen=True)
class CleanFlags:
    """Flags of `clean` as they are parsed."""

    port: int
    dry_run: bool
    yes: bool


@click.command()
@options.inventory
@options.limit
@click.option("--port", type=int, default=USUAL_PORT, show_default=True, help="Rendezvous port that may be held.")
@click.option("--dry-run", is_flag=True, help="Show what would be removed and ended; change nothing.")
@click.option("--yes", is_flag=True, help="End training processes of yours whose launcher is gone without asking.")
@options.as_json
def command(inventory: Path | None, limit: str | None, as_json: bool, **asked: Any) -> int:
    """Remove what is left of runs that are over, end what nobody runs any more, and prove that nothing is left.

    Processes of live runs, of your own live launchers and terminals, and of other users are never touched.
    """
    flags = CleanFlags(**asked)
    cluster = hosts_to_ask(inventory, limit)
    report = clean_hosts(cluster, flags.port, dry_run=flags.dry_run)
    _show(report)
    if report.stale and not flags.dry_run and _wants_end(flags, report.stale):
        report = end_stale(report)
        for hosts, phrase in alike({name: each.cleanup["ended"] for name, each in report.ended.items()}):
            console.say(f"{hosts}: ended {phrase}")
    for proven in () if flags.dry_run else prove_runs(cluster, console.say):
        show_proofs(proven.run, proven.proofs)
    if as_json:
        document.show(_as_data(report))
    _show_verdict(report)
    return ExitCode.DONE if report.is_clean else ExitCode.CLUSTER_NOT_READY


def _wants_end(flags: CleanFlags, found: Mapping[str, tuple[Occupant, ...]]) -> bool:
    if flags.yes:
        return True
    if not sys.stdin.isatty():
        return False
    number = sum(map(len, found.values()))
    what = "this process" if number == 1 else f"these {number} processes"
    return console.confirm(f"end {what} on {fold(found)}?")


def _show(report: CleanReport) -> None:
    """Print what each host reports; hosts with the same report are one line."""
    for hosts, phrase in alike({name: _reported(each, report) for name, each in report.swept.items()}):
        console.say(f"{hosts}: {phrase}")
    for hosts, unread in alike({name: each.after.unread for name, each in report.swept.items()}):
        console.say(f"{hosts}: could not look at {unread.subject}: {unread.reason}")
    blind = {name: each.after.occupancy.unseen for name, each in report.swept.items() if each.after.occupancy.unseen}
    for hosts, users in alike({name: (users,) for name, users in blind.items()}):
        console.say(
            f"{hosts}: could not see what processes of {', '.join(users)} hold; root there sees "
            "devices and ports that are taken: sudo fuser -v /dev/nvidia*; sudo ss -ltnp"
        )


def _reported(swept: Swept, report: CleanReport) -> Iterator[str]:
    """Yield what was removed on one host, what could not be, and who uses it."""
    yield from (f"{'would remove' if report.dry_run else 'removed'} {phrase}" for phrase in swept.cleanup["removed"])
    yield from (f"could not remove {phrase}" for phrase in swept.cleanup["left"])
    seen = swept.after.occupancy
    for word, occupants in (("left over", seen.stale), ("at work", seen.at_work), ("another user's", seen.foreign)):
        yield from (f"{word}: {described_process(occupant)}" for occupant in occupants)
    for port, user in seen.hidden_listeners:
        yield f"another user's: port {port} is held by a process of {user} that cannot be seen"


def _show_verdict(report: CleanReport) -> None:
    """Print which hosts are clean, which are not, and the next steps."""
    if report.clean:
        proof = "clean: nothing of yours is left of runs that are over"
        console.say(f"{fold(report.clean)}: {'nothing to remove, nothing to end' if report.dry_run else proof}")
    for hosts, phrase in alike({name: each.cleanup["survives"] for name, each in report.ended.items()}):
        console.say(f"{hosts}: survives SIGKILL: {phrase}")
    unreachable = {name: (why.reason,) for name, why in report.unreachable.items()}
    for hosts, reason in alike_errors(report.cluster.hosts, unreachable):
        console.say(f"{hosts}: not known to be clean: {reason}")
    next_steps = list(of_hosts({name: why.hint for name, why in report.unreachable.items()}))
    if report.not_clean and not report.dry_run:
        console.say(f"{fold(report.not_clean)}: not clean")
        next_steps.append(pylaunch("clean", "--yes", "--limit", fold(report.not_clean)))
    if next_steps:
        hints.say(*next_steps)


def _as_data(report: CleanReport) -> dict[str, object]:
    reasons = {name: why.reason for name, why in report.unreachable.items()}
    known = {name: _host(swept, report.ended.get(name)) for name, swept in report.swept.items()}
    return {"hosts": document.hosts(report.cluster.names, reasons, known)}


def _host(first: Swept, then: Swept | None) -> dict[str, object]:
    seen, last = first.after.occupancy, (then or first).after
    return {
        "removed": first.cleanup["removed"],
        "not_removed": first.cleanup["left"],
        "stale": [as_data(each) for each in seen.stale],
        "at_work": [as_data(each) for each in seen.at_work],
        "foreign": [as_data(each) for each in seen.foreign],
        "unseen_users": list(seen.unseen),
        "ended": then.cleanup["ended"] if then is not None else [],
        "survives": then.cleanup["survives"] if then is not None else [],
        "stale_now": [as_data(each) for each in last.occupancy.stale],
        "unread": [asdict(each) for each in last.unread],
    }
