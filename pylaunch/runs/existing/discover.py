"""Find runs that this machine has no record of, on their nodes, whoever started them."""

import asyncio
import signal
from collections.abc import Mapping
from typing import TypeGuard

from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.untrusted_json import UntrustedJsonError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.diagnosis.host_hints import of_hosts
from pylaunch.model.hostset import fold
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.agent_link import HELLO_TIMEOUT_S, root_untrusted
from pylaunch.runs.connect.fleet import CONNECTING
from pylaunch.runs.connect.node_script import (
    AGENT_ABSENT,
    AGENTS_DAMAGED,
    PYTHON_ABSENT,
    ROOT_UNTRUSTED,
    RUNS,
    root_words,
)
from pylaunch.store.node_record import NodeShare, NotARecordError, RecordReader
from pylaunch.transport.connections import connector_of, in_full
from pylaunch.transport.handshakes import awaited_turn
from pylaunch.transport.patience import patience
from pylaunch.transport.process import describe_exit, last_line, spawn
from pylaunch.transport.silence import AWAITED

MAX_ANSWER = 64 << 20
"""Bytes of one node's answer: all runs that it knows."""

MOST_RUNS = 512
"""Runs of one node that are shown; its agent sends as many."""


@dataclass(frozen=True)
class KnownRun:
    """A run as one node knows it."""

    record: RunRecord
    is_live: bool
    """Its agent runs."""


@dataclass(frozen=True)
class KnownRuns:
    """The runs that one node knows."""

    runs: tuple[KnownRun, ...] = ()
    omitted: str = ""
    """Count of further runs and the reason why they are not shown; "" for none."""


@dataclass(frozen=True)
class Discovery:
    """The runs that the nodes report."""

    records: tuple[RunRecord, ...]
    """Every run, the oldest first."""

    live: frozenset[str]
    """Ids of runs that still have an agent on some host."""

    silent: Mapping[str, str]
    """Reasons of hosts that did not answer, by host."""

    notes: tuple[str, ...] = ()
    """Hosts and runs that are left out, one line each."""

    hints: tuple[str, ...] = ()
    """Next steps for silent hosts, folded."""


def discover(cluster: Cluster, timeout_s: float = HELLO_TIMEOUT_S) -> Discovery:
    """Ask every host of `cluster` for the runs it knows. Hosts are then reached as `cluster` says, not as a node says.

    A host that does not answer within `timeout_s` counts as silent.
    """

    reader = RecordReader(cluster)
    hints: dict[str, str | None] = {}

    async def ask_all() -> list[KnownRuns | str]:
        room = asyncio.Semaphore(CONNECTING)

        async def ask(host: Host) -> KnownRuns | str:
            async with room:
                return await _ask(host, cluster, timeout_s, reader, hints)

        return await asyncio.gather(*map(ask, cluster.hosts))

    answers = asyncio.run(ask_all())
    return replace(merged(dict(zip(cluster.names, answers, strict=True))), hints=of_hosts(hints))


def merged(answers: Mapping[str, KnownRuns | str]) -> Discovery:
    """Merge the answers of all hosts. Pure.

    Where nodes report different records of one run, that of the first node that is part of it counts.
    """
    records: dict[str, RunRecord] = {}
    live, notes = set(), []
    reported = [
        (host, known) for host, answer in answers.items() if not isinstance(answer, str) for known in answer.runs
    ]
    for _, known in sorted(reported, key=_is_stranger):
        run = known.record.plan.run
        if records.setdefault(run, known.record) == known.record and known.is_live:
            live.add(run)
    for run, record in records.items():
        notes += _not_reached(record, is_live=run in live)
    notes += [f"note: {host}: {answer.omitted}" for host, answer in answers.items() if _omits(answer)]
    return Discovery(
        tuple(sorted(records.values(), key=lambda record: record.created_at)),
        frozenset(live),
        {name: answer for name, answer in answers.items() if isinstance(answer, str)},
        tuple(notes),
    )


def _is_stranger(reported: tuple[str, KnownRun]) -> bool:
    host, known = reported
    return host not in {node.host.name for node in known.record.plan.nodes}


def _not_reached(record: RunRecord, *, is_live: bool) -> list[str]:
    absent = [node.host.name for node in record.plan.nodes if node.host.connection is Connection.NONE]
    if not absent or not is_live:
        return []
    return [f"note: run {record.plan.run} has {fold(absent)}, not in this inventory: not connected to"]


async def _ask(
    host: Host, cluster: Cluster, timeout_s: float, reader: RecordReader, hints: dict[str, str | None]
) -> KnownRuns | str:
    connector = connector_of(host, cluster.known_hosts)
    async with awaited_turn(connector):
        child = await spawn(connector.argv(("/bin/sh", "-c", RUNS, "sh", *root_words(host), host.agent_python)))
        child.close_stdin()
        try:
            with AWAITED.hosts([host.name], timeout_s):
                async with patience(timeout_s):
                    ended = await child.wait()
        except TimeoutError:
            silence = connector.timed_out(timeout_s)
            child.signal(signal.SIGKILL)
            await child.wait()
            hints[host.name] = silence.hint
            return silence.reason
        ended = await in_full(connector, ended)
    if ended.returncode in (AGENT_ABSENT, PYTHON_ABSENT):
        return KnownRuns()  # Nothing was ever started there.
    if ended.returncode == ROOT_UNTRUSTED:
        return root_untrusted(host)
    if ended.returncode == AGENTS_DAMAGED:
        return f"no agent under {host.node_root} has the content that its name says; pylaunch start installs one"
    if (failure := connector.failure(ended)) is not None:
        hints[host.name] = failure.hint
        return failure.reason
    if not ended.ok:
        return f"its agent ended with {describe_exit(ended.returncode)}: {last_line(ended.stderr or ended.stdout)}"
    return read_answer(ended.stdout, reader)


def read_answer(text: str, reader: RecordReader) -> KnownRuns | str:
    """Return the runs in what an agent printed. Omit what is no record, and what exceeds the limits of one node."""
    try:
        answer = untrusted_json.parse(text, MAX_ANSWER)
    except UntrustedJsonError as error:
        return f"expected JSON ({error}), got {text[:200]!r}"
    if not isinstance(answer, list):
        return f"expected a list of runs, got {text[:200]!r}"
    known: dict[str, KnownRun] = {}
    entries = [each for each in answer if isinstance(each, dict)]
    records = [each for each in entries if isinstance(each.get("record"), str)]
    records.sort(key=lambda each: (each.get("live") is not True, len(each["record"])))
    share, reason, omitted = NodeShare(), "", max(0, len(records) - MOST_RUNS)
    for each in records[:MOST_RUNS]:
        try:
            record = reader.read(each["record"], share)
        except NotARecordError as error:
            omitted, reason = omitted + 1, reason or str(error)
        else:
            known[record.plan.run] = KnownRun(record, each.get("live") is True)
    further = next((each["omitted"] for each in entries if type(each.get("omitted")) is int), 0)
    if further > 0 or omitted > 0:
        reason = reason or f"more than {MOST_RUNS} runs"
        return KnownRuns(tuple(known.values()), f"{min(omitted + further, 10**6)} of its runs are not shown: {reason}")
    return KnownRuns(tuple(known.values()))


def _omits(answer: KnownRuns | str) -> TypeGuard[KnownRuns]:
    return not isinstance(answer, str) and bool(answer.omitted)
