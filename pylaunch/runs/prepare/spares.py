"""Spares: check them before a run starts, and hold their devices while it runs.

A process of the agent on each spare keeps its devices for the run.

The process lives as long as its connection. A spare that is lost, or that another run takes, is reported at once, not
when it is needed; the controller calls it again until it is ready.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import NoReturn

import msgspec

from pylaunch.model.plan import NodePlan, RunPlan, base_of, standby
from pylaunch.runs.connect.agent_link import HELLO_TIMEOUT_S, LinkError, enter, silent, why_ended
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.connect.interruptible import InterruptSource, on_fleet
from pylaunch.runs.follow.run_events import Emitter, Notice
from pylaunch.runs.prepare.install import installer
from pylaunch.runs.prepare.session import Launch, NodesRefusedError, Session
from pylaunch.transport.answers import NotAnAnswerError, decoded
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import Child, spawn

RETRY_S = 30.0
"""Pause between two calls of a spare that is not ready."""

LEAVE_S = 2.0
"""Time that a spare may take to release its devices before the connection is closed."""


def vet(launch: Launch, emit: Emitter, source: InterruptSource) -> Mapping[str, tuple[str, ...]]:
    """Prepare the nodes of `launch`, release none, and return the reasons of those that refuse."""

    async def prepare(fleet: Fleet) -> Mapping[str, tuple[str, ...]]:
        try:
            await Session(launch, fleet, emit).prepare(installer(launch.plan, launch.archive))
        except NodesRefusedError as refused:
            return refused.reasons
        return {}

    return on_fleet(launch.plan, launch.archive.version, prepare, source=source)


@contextlib.asynccontextmanager
async def standing_by(plan: RunPlan, agent: str, emit: Emitter) -> AsyncIterator[None]:
    """Keep the spares of `plan` ready while the body runs. The body waits for none of them."""
    keepers = [asyncio.ensure_future(_Keeper(plan, node, agent, emit).keep()) for node in standby(plan).nodes]
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


class _Keeper:
    """Keeps one spare."""

    def __init__(self, plan: RunPlan, node: NodePlan, agent: str, emit: Emitter) -> None:
        self._host = node.host
        self._connector = connector_of(node.host, plan.known_hosts)
        self._words = enter(node.host, agent, "hold", base_of(plan.run))
        self._order = json.dumps({"devices": list(node.devices)}).encode() + b"\n"
        self._emit = emit
        self._trouble = ""
        """Reason that was reported last why the spare is not ready; "" when it is."""

    async def keep(self) -> None:
        """Hold the spare, and try again, until cancelled."""
        while True:
            try:
                await self._hold()
            except LinkError as error:
                trouble = f"{error.reason}; {error.hint}" if error.hint else error.reason
                if trouble != self._trouble:
                    self._trouble = trouble
                    self._emit(Notice(f"note: spare {self._host.name} is not ready: {trouble}"))
            await asyncio.sleep(RETRY_S)

    async def _hold(self) -> NoReturn:
        """Hold the devices until the connection ends. Raises LinkError with the reason, also when holding fails."""
        try:
            child = await spawn(self._connector.argv(self._words))
        except OSError as error:
            raise LinkError(f"ssh cannot be started: {error.strerror}") from None
        leave_s = 0.0
        try:
            answer = await self._answer(child)
            if (refusal := _refusal(answer)) is not None:
                raise refusal
            if answer.startswith(b'{"held"'):
                leave_s = LEAVE_S
                self._report_ready()
                while await child.readline():
                    pass
            raise why_ended(self._connector, await child.leave(LEAVE_S))
        finally:
            await child.leave(leave_s)

    async def _answer(self, child: Child) -> bytes:
        """Return the first line of the agent, b"" when it ended. Raises LinkError after a time-out."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                await child.send(self._order)
                return await child.readline()
        except ConnectionError:
            return b""
        except TimeoutError:
            raise silent(self._connector.timed_out(HELLO_TIMEOUT_S)) from None

    def _report_ready(self) -> None:
        if self._trouble:
            self._trouble = ""
            self._emit(Notice(f"note: spare {self._host.name} is ready again"))


class _SpareAnswer(msgspec.Struct):
    taken: list[str] = []
    error: str = ""


def _refusal(answer: bytes) -> LinkError | None:
    with contextlib.suppress(NotAnAnswerError):
        refused = decoded(answer, _SpareAnswer)
        if refused.taken:
            return LinkError("; ".join(refused.taken), "who holds what: pylaunch gpus")
        if refused.error:
            return LinkError(refused.error)
    return None
