"""The page: rows of a report in the template, where every text is escaped, made visible and masked. Pure."""

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pylaunch.features.report.page import ranks, timeline
from pylaunch.features.report.page.content import ReportInput
from pylaunch.model.hostset import alike, fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.model.text.argv import pylaunch, quoted, quoted_with_env
from pylaunch.model.text.moments import in_utc
from pylaunch.model.text.sanitise import rank_output, visible

MOST_FINDINGS = 200
MOST_EVIDENCE = 40
MOST_CAUSES = 20
MOST_REPORTS = 20
LONGEST_TEXT = 600
"""Characters of a text in a sentence."""

TOP_LINES = 12
"""Last lines of the rank at the top of the page; its host has more."""

SHOWN_HOSTS = 16
"""Hosts with ranks that are listed; of more, only those with the named rank are not folded away."""


def page(content: ReportInput, hide: Callable[[str], str], complete: Callable[[str], str] = str) -> str:
    """Return the report as one HTML document; `hide` masks secrets, `complete` adds the inventory to a hint."""
    record = content.record
    plan, outcome = record.plan, record.outcome
    lasted, ran = ranks.durations(content)
    hosts = ranks.by_host(content, hide) if record.has_started else ()
    prominent = hosts if len(hosts) <= SHOWN_HOSTS else tuple(host for host in hosts if host.is_named)
    skew = timeline.start_skew(record)
    causes = () if outcome is None else outcome.causes
    values = {
        "run": plan.run,
        "status": "no outcome is recorded" if outcome is None else outcome.status.value,
        "is_well": outcome is not None and outcome.status is Status.DONE,
        "outcome": outcome,
        "verdict": _verdict(outcome),
        "hint": complete(_hint(plan, outcome)),
        "refusals": _refusals(plan, outcome),
        "evidence": _evidence(outcome),
        "cause": causes[0] if causes else None,
        "other_causes": causes[1:MOST_CAUSES],
        "rejected": () if outcome is None else outcome.rejected[:MOST_CAUSES],
        "shown": _shown(outcome, hosts),
        "top_lines": TOP_LINES,
        "plan": plan,
        "hosts": fold(plan.cluster.names),
        "command": shortened(quoted(plan.job.command)),
        "started_by": record.started_by,
        "started": moment(record.created_at),
        "lasted": lasted,
        "ran": ran,
        "made": moment(content.made_at),
        "phases": [(name, timeline.seconds_text(value)) for name, value in timeline.phases(record).items()],
        "skew": None if skew is None else timeline.seconds_text(skew),
        "start": timeline.start_timeline(record),
        "course": timeline.run_timeline(record),
        "hangs": _hangs(record),
        "host_ranks": prominent,
        "other_ranks": [host for host in hosts if host not in prominent],
        "findings": content.findings[:MOST_FINDINGS],
        "fold": fold,
        "versions": content.versions,
        "rows_of_plan": _plan_rows(plan),
        "missing": content.missing,
    }
    return _template(hide).render(values)


def _template(hide: Callable[[str], str]) -> Template:
    def text(value: object) -> object:
        """Return a value of the template masked and without control characters; Jinja2 escapes it afterwards."""
        return visible(hide(value)) if isinstance(value, str) and not hasattr(value, "__html__") else value

    environment = Environment(
        loader=PackageLoader("pylaunch.features.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=text,
    )
    environment.filters["lines"] = _lines
    return environment.get_template("page.html.j2")


def _lines(lines: tuple[str, ...]) -> str:
    """Return lines of a rank as text, without colours and other sequences of a terminal."""
    return "\n".join(rank_output(line, colours=False) for line in lines)


def _verdict(outcome: Outcome | None) -> str:
    if outcome is None:
        return "This machine does not know the end of the run."
    if outcome.status is Status.DONE:
        return "Every rank exited with code 0."
    return shortened(outcome.reason)


def _evidence(outcome: Outcome | None) -> list[str]:
    """Return the lines of evidence of the verdict: those that were printed, and those of the first cause."""
    if outcome is None:
        return []
    lines = (*outcome.evidence, *(outcome.causes[0].evidence if outcome.causes else ()))
    return [shortened(line) for line in dict.fromkeys(lines)][:MOST_EVIDENCE]


def shortened(text: str) -> str:
    """Return `text` with at most LONGEST_TEXT characters."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _hint(plan: RunPlan, outcome: Outcome | None) -> str:
    """Return the command to type next; "" after a run that is done."""
    if outcome is None:
        return pylaunch("status", plan.run)
    hint = outcome.hint or next((cause.hint for cause in outcome.causes[:1]), "")
    if hint or outcome.status in (Status.DONE, Status.REFUSED):
        return hint
    rank = outcome.named.rank if outcome.named is not None else None
    if rank is None and outcome.first_failure is not None:
        rank = outcome.first_failure.rank
    return pylaunch("logs", plan.attempt, *(("--rank", str(rank)) if rank is not None else ("--launcher",)))


def _refusals(plan: RunPlan, outcome: Outcome | None) -> list[tuple[str, str]]:
    """Return each reason once with the hosts that refused for it, in the order of the plan."""
    refused = {} if outcome is None else outcome.refusals
    return alike({host: refused[host] for host in plan.in_order(refused)})


def _hangs(record: RunRecord) -> list[tuple[str, Event]]:
    """Return the reports that ranks do not advance, or advance again, each with its time after the start."""
    reports = [event for event in record.events if event.kind in (EventKind.HANG, EventKind.ADVANCING)]
    return [(timeline.seconds_text(event.time - record.created_at), event) for event in reports[-MOST_REPORTS:]]


def _shown(outcome: Outcome | None, hosts: tuple[ranks.HostRanks, ...]) -> ranks.RankLines | None:
    """Return the rank whose last lines are at the top: the named one, else the first that failed."""
    if outcome is None or outcome.first_failure is None:
        return None
    number = outcome.first_failure.rank
    return next((rank for host in hosts for rank in host.ranks if rank.rank == number), None)


def _plan_rows(plan: RunPlan) -> list[tuple[str, str]]:
    job = plan.job
    rows = [
        ("Command", quoted_with_env(job.env, job.command)),
        ("Framework", job.framework.value),
        ("Working directory", job.workdir),
        (
            "Nodes and ranks",
            f"{len(plan.nodes)} nodes, {plan.world_size} ranks, coordinator {plan.coordinator.host.name}",
        ),
        ("Python", job.python or ""),
        ("Secrets", ", ".join(job.secrets)),
        ("Interface", job.interface or ""),
        ("Rendezvous port", "chosen by the first node" if job.rendezvous_port is None else str(job.rendezvous_port)),
        ("Restarts", f"attempt {plan.restart} of at most {job.max_restarts}" if job.max_restarts else ""),
        ("Spares", fold(host.name for host in plan.spares)),
        ("Shipped code", "" if job.sync is None else f"{job.sync.files} files of {job.sync.directory}"),
        ("Inventory", quoted(plan.sources)),
    ]
    return [(name, value) for name, value in rows if value]


def moment(seconds: float) -> str:
    """Return a time in UTC, to the second."""
    return in_utc(seconds).strftime("%Y-%m-%d %H:%M:%S UTC")
