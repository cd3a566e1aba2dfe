"""Find the run that a command line names: one that is recorded here, or one that its nodes know."""

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from pylaunch.errors import ClusterNotReadyError, InventoryError, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.inventory.load import source_of
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import expand, fold
from pylaunch.model.plan import NodePlan, RunPlan, base_of
from pylaunch.model.run import RunRecord
from pylaunch.model.text.argv import pylaunch, quoted
from pylaunch.model.text.quantity import duration
from pylaunch.runs.all_runs import (
    Discovery,
    RunNotNamedError,
    discover_runs,
    find_runs,
    find_unnamed,
)
from pylaunch.runs.connect.bounds import LAUNCHER_STREAMS
from pylaunch.runs.follow.run_follower import rank_streams
from pylaunch.runs.proof import is_in_doubt
from pylaunch.store.runs import UnknownRunError, with_reachable_hosts
from pylaunch.terminal import console
from pylaunch.terminal.options import current
from pylaunch.terminal.views.run_data import job_words, verb_of

_OF_IDS = frozenset("0123456789abcdef.")


def find(name: str | None, inventory: Path | None, *, newest: bool = False) -> RunRecord:
    """Return the one run that `find_each` returns. Raises UsageError for a job of several runs."""
    found = find_each(name, inventory, newest=newest)
    if len(found) > 1 and (part := found[0].plan.job.part) is not None:
        verb = current().verb or "this"
        several = f"{part.job} is a job of several roles, and {verb} takes one run"
        raise _to_choose(RunNotNamedError(several, found))
    return found[0]


def find_each(name: str | None, inventory: Path | None, *, newest: bool = False) -> list[RunRecord]:
    """Return the run that `name` begins, or those of a job, those that stop first first.

    None is the only live run of the inventory that is given or found here, with `newest` the newest run or job. Hosts
    of `inventory`, else of the one found here, list their runs when none is recorded here. Raises UsageError for none
    or several, and where None leaves a choice, ClusterNotReadyError when no host answers.
    """
    if name is None:
        record = _unnamed(inventory, newest=newest)
        part = record.plan.job.part if newest else None
        return [record] if part is None else find_each(part.job, inventory)
    try:
        try:
            found = find_runs(name)
        except UnknownRunError:
            if inventory is None:
                raise
            found = find_runs(name, discovered(load_cluster(inventory)))
    except UnknownRunError as error:
        if inventory is not None:
            raise
        if (here := _asked_here(name)) is not None:
            return find_each(name, here)
        hint = f"started elsewhere? its nodes know it: -i cluster.ini; what is known here: {error.hint}"
        raise UsageError(error.message, hint=hint) from None
    return [reached_now(each, inventory) for each in found]


def _unnamed(inventory: Path | None, *, newest: bool) -> RunRecord:
    found = None
    if inventory is not None:
        cluster = load_cluster(inventory)
        try:
            found = discovered(cluster)
        except ClusterNotReadyError as error:
            if not newest:
                raise
            console.say(f"note: {error.message}, so the newest run is one that is recorded here")
    source = source_of(inventory)
    sources = () if source is None else (str(source),)
    try:
        record = find_unnamed(sources, found, _is_of_verb, console.say, newest=newest)
    except RunNotNamedError as error:
        raise _to_choose(error) from None
    if newest:
        console.say(f"the newest run: {_line(record)}")
    return reached_now(record, inventory)


def refuse_several(records: Sequence[RunRecord], *option: str) -> None:
    """Raise UsageError for an option that is about one run."""
    if len(records) > 1:
        hint = pylaunch(current().verb or "status", base_of(records[0].plan.run), *option)
        raise UsageError(f"{quoted(option)}: expected one run, and the job has {len(records)}", hint=hint)


def looks_like_run(word: str) -> bool:
    """Return whether `word` is an id of a run, or the beginning of one."""
    return bool(word) and set(word) <= _OF_IDS and not word.startswith(".")


def _asked_here(run: str) -> Path | None:
    """Return the inventory found here, whose hosts may know `run`, which is not recorded; None if `run` is no id."""
    source = source_of(None) if set(run) <= _OF_IDS else None
    if source is not None:
        console.say(f"note: {run} is not recorded here: the hosts of {source} are asked")
    return source


def reached_now(record: RunRecord, inventory: Path | None) -> RunRecord:
    """Return `record` with the addresses that its hosts have now: those of `inventory`, else those of its own
    inventory where that is a file that was written since. Prints which hosts are elsewhere; the record stays as it is.
    """
    if inventory is None:
        source = Path(*record.plan.sources[:1])
        # os.access comes first: is_file raises where a directory above may not be searched.
        is_file = os.access(source, os.F_OK) and source.is_file() and not os.access(source, os.X_OK)
        if not is_file or source.stat().st_mtime <= record.created_at:
            return record
        inventory = source
    try:
        now = with_reachable_hosts(record, load_cluster(inventory))
    except InventoryError as error:
        console.say(f"note: addresses as of the start of run {record.plan.run}: {error.message}")
        return record
    before, after = record.plan.cluster, now.plan.cluster
    if moved := [host.name for host in after.hosts if host.address != before[host.name].address]:
        console.say(f"note: {fold(moved)}: the address in {inventory} is used, not that of the start")
    return now


def name_in_job(record: RunRecord) -> str:
    """Return the name of the part of a job that a run is; its id for a run of its own."""
    part = record.plan.job.part
    return record.plan.run if part is None else part.name


def _is_of_verb(record: RunRecord) -> bool:
    """Return whether the verb can take a run: `rerun` starts no measurement of a verb again."""
    return current().verb != "rerun" or verb_of(record.plan.job.command) is None


def discovered(cluster: Cluster) -> Discovery:
    """Ask the hosts of `cluster` for runs, and print which hosts did not answer. Raises as `discover_runs` does."""
    found = discover_runs(cluster)
    if found.silent:
        console.say(f"{fold(found.silent)} did not answer: {next(iter(found.silent.values()))}")
    for note in found.notes:
        console.say(note)
    return found


def _to_choose(error: RunNotNamedError) -> UsageError:
    """Return `error` with its candidates as lines."""
    if not error.candidates:
        return error
    verb, candidates = current().verb or "status", error.candidates
    if verb == "stop":
        candidates = tuple(each for each in candidates if each.outcome is None or is_in_doubt(each.outcome))
    candidates = tuple(filter(_is_of_verb, candidates))
    all_runs = "all runs: pylaunch ps --all"
    return UsageError(
        f"{error.message}: name one" if candidates else error.message,
        evidence=[_line(record) for record in candidates],
        hint=f"{pylaunch(verb, base_of(candidates[0].plan.run))}; {all_runs}" if candidates else all_runs,
    )


def _line(record: RunRecord) -> str:
    """Describe a run to choose: id, recorded state, age, hosts, inventory and command."""
    status = "running" if record.outcome is None else record.outcome.status.value
    hosts = fold(node.host.name for node in record.plan.nodes)
    inventory = quoted(record.plan.sources) if record.plan.sources else "no inventory"
    age = duration(max(0.0, time.time() - record.created_at))
    run, words = base_of(record.plan.run), job_words(record.plan.job.command)
    return f"{run}  {status}, started {age} ago on {hosts} ({inventory}): {words}"


def parse_ranks(text: str, plan: RunPlan) -> tuple[int, ...]:
    """Parse ranks such as "0-3,7". Raises UsageError for other text, and for ranks that the run does not have."""
    found: set[int] = set()
    all_ranks = "0" if plan.world_size == 1 else f"0-{plan.world_size - 1}"
    hint = pylaunch(current().verb or "logs", plan.run, "--rank", all_ranks)
    for piece in text.split(","):
        bounds = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", piece)
        if bounds is None or int(bounds[2] or bounds[1]) < int(bounds[1]):
            raise UsageError(f"--rank {text}: expected ranks such as 0-3,7", hint=hint)
        last = int(bounds[2] or bounds[1])
        if last >= plan.world_size:
            raise UsageError(f"--rank {text}: run {plan.run} has ranks 0 … {plan.world_size - 1}", hint=hint)
        found |= set(range(int(bounds[1]), last + 1))
    return tuple(sorted(found))


def nodes_of(text: str, plan: RunPlan) -> tuple[NodePlan, ...]:
    """Parse nodes such as "n1,gpu[01-03]". Raises UsageError for hosts that are not in the run."""
    try:
        wanted = set(expand(text))
    except ValueError as error:
        raise UsageError(f"--node {text}: {error}") from None
    strange = wanted - {node.host.name for node in plan.nodes}
    if strange:
        hosts = fold(node.host.name for node in plan.nodes)
        raise UsageError(f"--node {text}: run {plan.run} has no node {fold(strange)}; it runs on {hosts}")
    return tuple(node for node in plan.nodes if node.host.name in wanted)


def chosen(
    plan: RunPlan, ranks: str | None, nodes: str | None, *, launcher: bool
) -> tuple[tuple[NodePlan, ...], list[str]]:
    """Return the nodes to ask and the streams to show. Raises UsageError for an empty selection."""
    asked = plan.nodes if nodes is None else nodes_of(nodes, plan)
    if launcher:
        if ranks is not None:
            raise UsageError("--launcher cannot be combined with --rank", hint="use only one of them")
        return asked, [*LAUNCHER_STREAMS]
    wanted = range(plan.world_size) if ranks is None else parse_ranks(ranks, plan)
    there = tuple(node for node in asked if any(rank.rank in wanted for rank in node.ranks))
    if not there:
        raise UsageError(f"no rank of {ranks} runs on {nodes}", hint=f"pylaunch status {plan.run}")
    return there, [stream for rank in wanted for stream in rank_streams(plan, rank)]
