"""Read the logs of a run from its nodes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Sequence

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass
from pylaunch.model.plan import NodePlan
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.agent_link import AgentLink
from pylaunch.runs.connect.confine import ForeignMessage, overstepped
from pylaunch.runs.connect.fleet import ConnectionEnded, Fleet, Interrupted
from pylaunch.runs.connect.interruptible import InterruptSource, on_fleet
from pylaunch.runs.existing.reach import raise_if_none
from pylaunch.runs.follow.run_events import LIVE_LAG, Emitter, LinesWritten, Notice, skipped_line

LOOK_S = 1.0
LOOKS = 20
"""Looks without a message, after which a node counts as silent: its agent may be stopped, and has no heartbeat here."""


@dataclass(frozen=True)
class SilentNode:
    """A node whose logs are read has sent nothing for a while."""

    host: str
    seconds: float


@dataclass(frozen=True)
class LogQuery:
    """Logs to read, and from where."""

    nodes: Sequence[NodePlan]
    streams: list[str]
    follow: bool = False
    """Follow the logs until the run ends."""

    tail: int | None = None
    """Begin with the last lines of each stream, this many; None is with the first line."""

    since: float | None = None
    """Omit output written before this time, in seconds since the epoch on the controller's clock."""


def read_logs(record: RunRecord, emit: Emitter, query: LogQuery, source: InterruptSource) -> None:
    """Relay the output written until now, or with `follow` until the run ends. An interrupt ends only the query."""

    async def work(fleet: Fleet) -> None:
        names = [node.host.name for node in query.nodes]
        failures = await fleet.unless_interrupted(fleet.connect(names, "attach"))
        raise_if_none(record, {name: str(error) for name, error in failures.items()}, of=names)
        for name, error in failures.items():
            emit(Notice(f"{name}: {error}"))
        await fleet.send({name: _wanted(query, link) for name, link in fleet.links.items()})
        if query.follow:
            await relay(fleet, emit, query)
            return
        async with beside(report_silence(fleet)):
            await relay(fleet, emit, query)

    on_fleet(record.plan, record.agent, work, source=source)


@contextlib.asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run `work` beside this block, which ends it."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def relay(fleet: Fleet, emit: Emitter, query: LogQuery) -> None:
    """Relay output until every node has sent what the query wants, or is silent; or until an interrupt."""
    waiting = set(fleet.links)
    while waiting:
        host, message = await fleet.inbox.hear()
        match message:
            case protocol.Output():
                emit(LinesWritten(host, message.stream, message.text, fleet.our_time(host, message.time)))
            case protocol.Skipped():
                emit(Notice(skipped_line(host, message)))
            case ForeignMessage():
                emit(Notice(overstepped(host, message)))
            case protocol.Finished() | protocol.Failed() | ConnectionEnded():
                waiting.discard(host)
            case protocol.CaughtUp() if not query.follow:
                waiting.discard(host)
            case SilentNode() if message.host in waiting:
                waiting.discard(message.host)
                emit(Notice(f"{message.host}: silent for {message.seconds:g} s; its logs may continue"))
            case Interrupted():
                return


async def report_silence(fleet: Fleet, *, look_s: float = LOOK_S, looks: int = LOOKS) -> None:
    """Post SilentNode for each node that sends nothing between so many looks; time without looks does not count."""
    quiet: dict[str, tuple[float, int]] = {}
    while True:
        await asyncio.sleep(look_s)
        for host, link in fleet.links.items():
            heard_at, count = quiet.get(host, (0.0, 0))
            count = count + 1 if link.is_awaited and link.heard_at == heard_at else 0
            quiet[host] = (link.heard_at, count)
            if count == looks:
                await fleet.post(SilentNode(host, look_s * looks))


def _wanted(query: LogQuery, link: AgentLink) -> protocol.Follow:
    return protocol.Follow(
        {},
        query.streams,
        tail=query.tail,
        lag=LIVE_LAG if query.follow else None,
        since=None if query.since is None else link.clock.to_node(query.since),
    )
