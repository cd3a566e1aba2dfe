"""Find runs: those recorded on this machine, and those that only their nodes know, whoever started them."""

from collections.abc import Callable, Mapping, Sequence

from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.base.untrusted_json import UntrustedJsonError
from pylaunch.errors import ClusterNotReadyError, UsageError
from pylaunch.model.cluster import Cluster, Connection, Host
from pylaunch.model.diagnosis.host_errors import error_lines, of_hosts
from pylaunch.model.hostset import fold
from pylaunch.model.node_record import NodeShare, NotARecordError, RecordReader
from pylaunch.model.plan import base_of
from pylaunch.model.run import Notes, RunRecord
from pylaunch.model.text.argv import quoted
from pylaunch.probe.ask import Unreachable, run_on_all
from pylaunch.runs.connect.agent_link import (
    AGENT_ABSENT,
    AGENTS_DAMAGED,
    HELLO_TIMEOUT_S,
    PYTHON_ABSENT,
    ROOT_UNTRUSTED,
    RUNS,
    root_untrusted,
    root_words,
)
from pylaunch.runs.status import statuses
from pylaunch.store import runs
from pylaunch.store.runs import UnknownRunError, recorded_parts
from pylaunch.transport.process import Completed, describe_exit, last_line

MAX_ANSWER = 64 << 20
"""Bytes of one node's answer: all runs that it knows."""

MOST_RUNS = 512
"""Runs of one node that are shown; its agent sends as many."""


class NoAnswerError(Exception):
    """A host did not report its runs, with the reason."""


@dataclass(frozen=True)
class KnownRuns:
    """The runs that one node knows."""

    records: tuple[RunRecord, ...] = ()
    live: frozenset[str] = frozenset()
    """Ids of those whose agent runs."""

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

    def reached(self, record: RunRecord) -> RunRecord:
        """Return the record of a run that nodes reported, now or earlier, with its hosts as they are reached now."""
        now = next((each for each in self.records if each.plan.run == record.plan.run), None)
        return record if now is None or not record.is_foreign else runs.with_reachable_hosts(record, now.plan.cluster)


def discover(cluster: Cluster, timeout_s: float = HELLO_TIMEOUT_S) -> Discovery:
    """Ask every host of `cluster` for the runs it knows. Hosts are then reached as `cluster` says, not as a node says.

    A host that does not answer within `timeout_s` counts as silent.
    """
    words = {host.name: ("/bin/sh", "-c", RUNS, "sh", *root_words(host), host.agent_python) for host in cluster.hosts}
    ended = run_on_all(cluster, words, timeout_s)
    reader = RecordReader(cluster)
    known, silent = dict[str, KnownRuns](), dict[str, str]()
    for host in cluster.hosts:
        try:
            known[host.name] = _known(host, ended[host.name], reader)
        except NoAnswerError as error:
            silent[host.name] = str(error)
    hints = {name: each.hint for name, each in ended.items() if isinstance(each, Unreachable)}
    return replace(merged(known), silent=silent, hints=of_hosts(hints))


def merged(answers: Mapping[str, KnownRuns]) -> Discovery:
    """Merge the answers of hosts. Pure.

    Where nodes report different records of one run, that of the first node that is part of it counts.
    """
    records: dict[str, RunRecord] = {}
    live, notes = set(), []
    reported = [(host, record) for host, answer in answers.items() for record in answer.records]
    for host, record in sorted(reported, key=lambda each: each[0] not in each[1].plan.cluster.names):
        run = record.plan.run
        if records.setdefault(run, record) == record and run in answers[host].live:
            live.add(run)
    for run, record in records.items():
        absent = [node.host.name for node in record.plan.nodes if node.host.connection is Connection.NONE]
        if absent and run in live:
            notes.append(f"note: run {run} has {fold(absent)}, not in this inventory: not connected to")
    notes += [f"note: {host}: {answer.omitted}" for host, answer in answers.items() if answer.omitted]
    in_order = tuple(sorted(records.values(), key=lambda record: record.created_at))
    return Discovery(in_order, frozenset(live), {}, tuple(notes))


def _known(host: Host, ended: Completed | Unreachable, reader: RecordReader) -> KnownRuns:
    """Return the runs that `host` reports. Raises NoAnswerError."""
    if isinstance(ended, Unreachable):
        raise NoAnswerError(ended.reason)
    if ended.returncode in (AGENT_ABSENT, PYTHON_ABSENT):
        return KnownRuns()  # Nothing was ever started there.
    if ended.returncode == ROOT_UNTRUSTED:
        raise NoAnswerError(root_untrusted(host))
    if ended.returncode == AGENTS_DAMAGED:
        damage = f"no agent under {host.node_root} has the content that its name says"
        raise NoAnswerError(f"{damage}; pylaunch start installs one")
    if not ended.ok:
        why = last_line(ended.stderr or ended.stdout)
        raise NoAnswerError(f"its agent ended with {describe_exit(ended.returncode)}: {why}")
    return read_answer(ended.stdout, reader)


def read_answer(text: str, reader: RecordReader) -> KnownRuns:
    """Return the runs in what an agent printed. Omit what is no record, and what exceeds the limits of one node.

    Raises NoAnswerError for a text that is no list.
    """
    try:
        answer = untrusted_json.parse(text, MAX_ANSWER)
    except UntrustedJsonError as error:
        raise NoAnswerError(f"expected JSON ({error}), got {text[:200]!r}") from None
    if not isinstance(answer, list):
        raise NoAnswerError(f"expected a list of runs, got {text[:200]!r}")
    known, live = dict[str, RunRecord](), set[str]()
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
            known[record.plan.run] = record
            if each.get("live") is True:
                live.add(record.plan.run)
            else:
                live.discard(record.plan.run)
    further = next((each["omitted"] for each in entries if type(each.get("omitted")) is int), 0)
    words = f"{min(omitted + further, 10**6)} of its runs are not shown: {reason or f'more than {MOST_RUNS} runs'}"
    is_whole = further <= 0 and omitted == 0
    return KnownRuns(tuple(known.values()), frozenset(live), "" if is_whole else words)


CANDIDATES = 8
"""Runs that an error offers to choose from."""


class RunNotNamedError(UsageError):
    """No run was named, and not exactly one live run can be meant."""

    def __init__(self, message: str, candidates: Sequence[RunRecord]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(
            message,
            evidence=[
                f"{record.plan.run} on {fold(node.host.name for node in record.plan.nodes)}" for record in candidates
            ]
            or ["none is recorded here"],
            hint="name a run" if candidates else "ask the nodes: pylaunch ps -i INVENTORY",
        )


def discover_runs(cluster: Cluster) -> Discovery:
    """Ask every host of `cluster` for the runs it knows. Raises ClusterNotReadyError when no host answers."""
    found = discover(cluster)
    if len(found.silent) == len(cluster.hosts):
        raise ClusterNotReadyError(
            "no host answered",
            evidence=error_lines(cluster.hosts, found.silent),
            hint="\n      ".join(found.hints) or "pylaunch check",
        )
    return found


def adopt_runs(found: Discovery, *, past: bool) -> None:
    """Record the live runs of `found` on this machine, and with `past` those that are over."""
    for record in found.records:
        if past or record.plan.run in found.live:
            runs.adopt(record)


def find_run(run: str, found: Discovery | None = None) -> RunRecord:
    """Return the record that `run` (an id, or the beginning of one) names.

    Runs of `found` that it names are recorded here first. Raises UnknownRunError for none, UsageError for several.
    """
    if found is not None:
        known = {record.plan.run: record for record in found.records}
        for each in runs.meant(run, known):
            runs.adopt(known[each])
    return runs.read(runs.find(run))


def find_runs(name: str, found: Discovery | None = None) -> list[RunRecord]:
    """Return the run that `name` (an id, or the beginning of one) names, or the last attempt of each run of a job.

    Of a job, those that stop first are first. Runs of `found` that it names are recorded here first. Raises
    UnknownRunError for none, UsageError for several, also for a run and a job.
    """
    for record in () if found is None else found.records:
        if record.plan.job.part is not None and record.plan.job.part.job.startswith(name):
            runs.adopt(record)
    try:
        single = find_run(name, found)
    except UnknownRunError:
        single = None
    parts = {run: part for run, part in recorded_parts().items() if part.job.startswith(name)}
    jobs = sorted({part.job for part in parts.values()})
    if not jobs:
        return [single or find_run(name)]
    if len(jobs) > 1:
        raise UsageError(f"{name} begins {len(jobs)} jobs: {', '.join(jobs)}", hint="give more digits")
    job = [runs.read(runs.find(run)) for run in sorted(parts, key=lambda run: (parts[run].stop_order, parts[run].name))]
    if single is None:
        return job
    if name != jobs[0] or single.is_foreign == job[0].is_foreign:
        raise UsageError(f"{name} begins a run and a job", hint="give more digits, or the id of one run of the job")
    return job if single.is_foreign else [single]  # Nodes gave the other one the id of what was started here.


def find_unnamed(
    sources: Sequence[str],
    found: Discovery | None,
    is_meant: Callable[[RunRecord], bool],
    on_note: Notes,
    *,
    newest: bool,
) -> RunRecord:
    """Return the last attempt of the only live run of the inventory `sources`, or of the hosts that `found` is from.

    With `newest`, that of the newest run, live or not. Raises RunNotNamedError without one that `is_meant`.
    """
    if found is not None:
        adopt_runs(found, past=newest)
    known = [record for record in _newest_attempts(on_note) if is_meant(record)]
    known = known if found is None else [found.reached(record) for record in known]
    candidates = known if newest else [record for record in known if _may_live(record)]
    on_nodes = set[str]()
    if found is not None:
        on_nodes |= {record.plan.run for record in found.records} if newest else found.live
    here = [each for each in candidates if each.plan.sources == tuple(sources) or each.plan.run in on_nodes]
    if len(here) > 1 and not newest:
        here = [record for record, how in zip(here, statuses(here, on_note), strict=True) if how.outcome is None]
    if len(here) == 1 or (here and newest):
        return here[0]
    state = "recorded here" if newest else "live"
    which = f"several runs {_of(sources)} are live" if here else f"no run {_of(sources)} is {state}"
    raise RunNotNamedError(which, (here or candidates or known)[:CANDIDATES])


def _of(sources: Sequence[str]) -> str:
    return "of the inventory " + quoted(sources) if sources else "started without an inventory"


def _newest_attempts(on_note: Notes) -> list[RunRecord]:
    """Return the last attempt of every recorded run, the newest first."""
    last: dict[str, RunRecord] = {}
    for record in runs.readable(on_note):
        last.setdefault(base_of(record.plan.run), record)
    return list(last.values())


def _may_live(record: RunRecord) -> bool:
    """Report whether the end of the run is not recorded, or a controller here may start it again."""
    run = record.plan.run
    return record.outcome is None or any(runs.controller(each) is not None for each in {run, base_of(run)})
