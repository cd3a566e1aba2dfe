"""A run as data, in the forms of `cli.document`, for every verb that shows runs."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pylaunch.cli.views import document
from pylaunch.cli.views.listing import standings, word
from pylaunch.launch.existing.attach import Standing
from pylaunch.model.argv import quoted
from pylaunch.model.outcome import Outcome, RankEnd
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import EventKind, RunRecord
from pylaunch.store import runs

UNREACHABLE = "unreachable"


def summary(record: RunRecord, answer: Standing, now: float) -> dict[str, object]:
    """One run, as `ps` lists it."""
    ended = answer.outcome.ended_at if answer.outcome is not None else None
    return {
        "run": record.plan.run,
        "status": word(answer),
        "unproven": [] if answer.outcome is None else list(answer.outcome.unproven),
        "ranks": record.plan.world_size,
        "hosts": [node.host.name for node in record.plan.nodes],
        "created": document.moment(record.created_at),
        "ended": None if ended is None else document.moment(ended),
        "seconds": round((ended or now) - record.created_at, 1),
        "command": quoted(record.plan.job.command),
        "inventory": list(record.plan.sources),
    }


def details(record: RunRecord, answer: Standing) -> dict[str, object]:
    """One run, node by node, and how it ended."""
    return {
        **summary(record, answer, time.time()),
        "controller": runs.controller(record.plan.run),
        "start_seconds": start_seconds(record),
        "nodes": _nodes(record, answer),
        "outcome": None if answer.outcome is None else outcome(record.plan, answer.outcome),
    }


def latest(run: str) -> dict[str, object]:
    """The newest attempt of `run`, which is recorded here, as it stands now."""
    attempts = runs.attempts(run)
    if not attempts:
        return {"run": run}
    record = runs.read(attempts[-1])
    (answer,) = standings([record])
    return details(record, answer)


def _nodes(record: RunRecord, answer: Standing) -> list[dict[str, object]]:
    seconds = node_seconds(record)
    known = {node.host: node for node in answer.nodes}
    entries: list[dict[str, object]] = []
    for host in (node.host.name for node in record.plan.nodes):
        node = known.get(host)
        is_silent = node is not None and node.phase == UNREACHABLE
        entries.append(
            {
                "host": host,
                "unreachable": node.reason if node is not None and is_silent else None,
                "phase": "ended" if node is None else None if is_silent else node.phase,
                "running": [] if node is None else list(node.running),
                "reason": None if node is None or is_silent else node.reason or None,
                "start_seconds": seconds.get(host, {}),
            }
        )
    return entries


def start_seconds(record: RunRecord) -> dict[str, float]:
    """What each phase of the start took."""
    released = [event for event in record.events if event.kind is EventKind.RELEASED and event.host is None]
    return dict(released[-1].seconds) if released else {}


def node_seconds(record: RunRecord) -> dict[str, dict[str, float]]:
    """What each phase of the start took on each node; `exec` is from the common instant to its first rank's exec."""
    seconds: dict[str, dict[str, float]] = {}
    for event in record.events:
        if event.host is not None and event.kind in (EventKind.PREPARED, EventKind.RELEASED):
            seconds.setdefault(event.host, {}).update(event.seconds)
    return seconds


def outcome(plan: RunPlan, ended: Outcome) -> dict[str, object]:
    """How a run ended, and what is proven of each of its hosts."""
    return {
        "status": ended.status.value,
        "reason": ended.reason,
        "evidence": list(ended.evidence),
        "hint": ended.hint or None,
        "ended": document.moment(ended.ended_at),
        "named": None if ended.named is None else {"host": ended.named.host, "rank": ended.named.rank},
        "first_failure": None if ended.first_failure is None else _end(ended.first_failure),
        "hosts": [_proof(node.host.name, ended) for node in plan.nodes],
    }


def _proof(host: str, ended: Outcome) -> dict[str, object]:
    is_unproven = host in ended.unproven
    left = ended.leftovers.get(host, ())
    return {
        "host": host,
        "unreachable": "could not be asked whether it is clean" if is_unproven else None,
        "clean": None if is_unproven else not left,
        "left_behind": list(left),
        "refused": list(ended.refusals.get(host, ())),
    }


def _end(end: RankEnd) -> Mapping[str, object]:
    return {
        "host": end.host,
        "rank": end.rank,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "time": document.moment(end.time),
        "symptom": end.symptom or None,
        "last_lines": list(end.last_lines),
    }
