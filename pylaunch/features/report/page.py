"""The report as one HTML document: a run in the template, where every text is escaped, made visible and masked."""

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from pylaunch import __version__
from pylaunch.features.report.rows import SHOWN, nodes, ticks
from pylaunch.model.clock import in_utc
from pylaunch.model.hostset import alike, fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import RunRecord
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.model.text.sanitise import rank_output, visible
from pylaunch.terminal.views.outcome import next_command
from pylaunch.verdict.failure_evidence import seconds

MOST_EVIDENCE = 40
LONGEST_TEXT = 600
"""Characters of a text in a sentence."""


def page(record: RunRecord, made_at: float, hide: Callable[[str], str], complete: Callable[[str], str] = str) -> str:
    """Return the report as one HTML document, made at `made_at` seconds since the epoch.

    `hide` masks secrets, `complete` adds the inventory to a hint.
    """
    plan, outcome = record.plan, record.outcome
    causes = () if outcome is None else outcome.causes
    values = {
        "run": plan.run,
        "status": "no outcome is recorded" if outcome is None else outcome.status.value,
        "is_well": outcome is not None and outcome.status is Status.DONE,
        "verdict": _verdict(outcome),
        "hint": complete(_hint(plan, outcome)),
        "evidence": _evidence(plan, outcome),
        "cause": causes[0] if causes else None,
        "world_size": plan.world_size,
        "hosts": fold(plan.cluster.names),
        "command": shortened(quoted(plan.job.command)),
        "started_by": record.started_by,
        "started": moment(record.created_at),
        "lasted": "" if outcome is None else seconds(outcome.ended_at - record.created_at),
        "made": moment(made_at),
        "nodes": nodes(record, hide),
        "most": SHOWN,
        "ticks": ticks(record),
        "version": __version__,
    }
    return _template(hide).render(values)


def _template(hide: Callable[[str], str]) -> Template:
    def text(value: object) -> object:
        """Return a value of the template masked and without control characters; Jinja2 escapes it afterwards."""
        return visible(hide(value)) if isinstance(value, str) and not hasattr(value, "__html__") else value

    environment = Environment(
        loader=PackageLoader("pylaunch.features.report", "."),
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


def _evidence(plan: RunPlan, outcome: Outcome | None) -> list[str]:
    """Return the lines of evidence of the verdict: those that were printed, refusals, and those of the first cause.

    Each refusal is there once with its hosts, in the order of the plan.
    """
    if outcome is None:
        return []
    refused = alike({host: outcome.refusals[host] for host in plan.in_order(outcome.refusals)})
    refusals = (f"{hosts}: {reason}" for hosts, reason in refused)
    lines = (*outcome.evidence, *refusals, *(outcome.causes[0].evidence if outcome.causes else ()))
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
    return next_command(plan, outcome)


def moment(time: float) -> str:
    """Return a time in UTC, to the second."""
    return in_utc(time).strftime("%Y-%m-%d %H:%M:%S UTC")
