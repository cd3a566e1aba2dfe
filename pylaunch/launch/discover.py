"""Runs that this machine has no record of, found on their nodes: who started them, and where, does not matter."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pylaunch.launch.fleet import CONNECTING
from pylaunch.launch.link import AGENT_ABSENT, HELLO_TIMEOUT_S, PYTHON_ABSENT
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import RunRecord
from pylaunch.store.runs import unpack
from pylaunch.transport import ssh
from pylaunch.transport.process import describe_exit, spawn

_RUNS = """\
root=$1$2
[ "$3" = user ] && root=$1$(id -u)$2
[ -x "$4" ] || exit 97
agent=$(ls -t "$root"/agents/*.pyz 2>/dev/null | head -n 1)
[ -n "$agent" ] || exit 96
exec "$4" -I -S "$agent" runs --root "$root"
"""


@dataclass(frozen=True)
class KnownRun:
    """A run as one node knows it."""

    record: RunRecord
    is_live: bool
    """Its agent is there."""


@dataclass(frozen=True)
class Discovery:
    """What the nodes know."""

    records: tuple[RunRecord, ...]
    """Every run, the oldest first."""

    live: frozenset[str]
    """Ids of those that an agent still looks after on some host."""

    silent: Mapping[str, str]
    """Hosts that could not be asked, with why."""


def discover(cluster: Cluster, timeout_s: float = HELLO_TIMEOUT_S) -> Discovery:
    """Ask every host of `cluster` for the runs it knows. Hosts are then reached as `cluster` says, not as back then.

    A host that does not answer within `timeout_s` counts as silent.
    """

    async def ask_all() -> list[tuple[KnownRun, ...] | str]:
        room = asyncio.Semaphore(CONNECTING)

        async def ask(host: Host) -> tuple[KnownRun, ...] | str:
            async with room:
                return await _ask(host, cluster, timeout_s)

        return await asyncio.gather(*map(ask, cluster.hosts))

    answers = dict(zip(cluster.names, asyncio.run(ask_all()), strict=True))
    known = [each for answer in answers.values() if not isinstance(answer, str) for each in answer]
    by_id = {each.record.plan.run: each.record for each in known}
    records = sorted(by_id.values(), key=lambda record: record.created_at)
    return Discovery(
        tuple(replace(record, plan=reached_by(record.plan, cluster)) for record in records),
        frozenset(each.record.plan.run for each in known if each.is_live),
        {name: answer for name, answer in answers.items() if isinstance(answer, str)},
    )


def reached_by(plan: RunPlan, cluster: Cluster) -> RunPlan:
    """`plan` with its hosts reached as `cluster` reaches them; what they are and where the agent lives stays."""
    nodes = []
    for node in plan.nodes:
        if node.host.name in cluster.names:
            now = cluster[node.host.name]
            host = replace(node.host, address=now.address, connection=now.connection, ssh=now.ssh)
            nodes.append(replace(node, host=host))
        else:
            nodes.append(node)
    return replace(plan, nodes=tuple(nodes), known_hosts=cluster.known_hosts, sources=cluster.sources)


async def _ask(host: Host, cluster: Cluster, timeout_s: float) -> tuple[KnownRun, ...] | str:
    before, placeholder, after = host.node_root.partition("{user}")
    words = ("/bin/sh", "-c", _RUNS, "sh", before, after, "user" if placeholder else "", host.agent_python)
    child = await spawn(ssh.command(host, cluster.known_hosts, words))
    child.close_stdin()
    try:
        async with asyncio.timeout(timeout_s):
            ended = await child.wait()
    except TimeoutError:
        child.signal(signal.SIGKILL)
        await child.wait()
        return f"no answer within {timeout_s:g} s"
    if ended.returncode in (AGENT_ABSENT, PYTHON_ABSENT):
        return ()  # Nothing was ever started there.
    if (failure := ssh.failure_of(host, ended.returncode, ended.stderr)) is not None:
        return failure.reason
    if not ended.ok:
        said = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["without a word"]
        return f"its agent ended with {describe_exit(ended.returncode)}: {said[0]}"
    return read_answer(ended.stdout)


def read_answer(text: str) -> tuple[KnownRun, ...] | str:
    """The runs in what an agent printed; runs of other versions that cannot be read are left out."""
    try:
        told = json.loads(text)
    except ValueError:
        return f"expected JSON, got {text[:200]!r}"
    known = []
    for each in told if isinstance(told, list) else []:
        try:
            known.append(KnownRun(unpack(each["record"]), bool(each["live"])))
        except (ValueError, KeyError, TypeError):
            continue
    return tuple(known)
