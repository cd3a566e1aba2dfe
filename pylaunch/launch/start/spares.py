"""Spares: check them before a run starts, and hold their devices while it runs.

A process of the agent on each spare keeps its devices for the run.

It lives as long as its connection: a spare that is lost, or that somebody else took first, is told when that happens
and not when it is needed, and is called again until it stands ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import NoReturn

import msgspec

from pylaunch.launch.connect.agent_link import HELLO_TIMEOUT_S, AgentVersion, LinkError, enter, why_ended
from pylaunch.launch.connect.fleet import Fleet
from pylaunch.launch.connect.interruptible import InterruptSource, on_fleet
from pylaunch.launch.follow.watcher import Watcher
from pylaunch.launch.start.install import installer
from pylaunch.launch.start.session import Launch, NodesRefusedError, Session
from pylaunch.model.plan import NodePlan, RunPlan, base_of, standby
from pylaunch.transport.answers import NotAnAnswerError, decoded
from pylaunch.transport.connections import connector_of
from pylaunch.transport.process import Child, spawn

RETRY_S = 30.0
"""Between two calls of a spare that does not stand ready."""

LEAVE_S = 2.0
"""What a spare may take to give its devices back, before we hang up on it."""


def vet(launch: Launch, watcher: Watcher, source: InterruptSource) -> Mapping[str, tuple[str, ...]]:
    """Prepare the nodes of `launch`, release none, and return the reasons of those that refuse."""

    async def prepare(fleet: Fleet) -> Mapping[str, tuple[str, ...]]:
        try:
            await Session(launch, fleet, watcher).prepare(installer(launch.plan, launch.archive))
        except NodesRefusedError as refused:
            return refused.reasons
        return {}

    return on_fleet(launch.plan, AgentVersion(launch.archive.version), prepare, source=source)


@contextlib.asynccontextmanager
async def standing_by(plan: RunPlan, agent: AgentVersion, watcher: Watcher) -> AsyncIterator[None]:
    """Keep the spares of `plan` ready for the length of the body. The body waits for none of them."""
    keepers = [asyncio.ensure_future(_Keeper(plan, node, agent, watcher).keep()) for node in standby(plan).nodes]
    try:
        yield
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


class _Keeper:
    """Keeps one spare."""

    def __init__(self, plan: RunPlan, node: NodePlan, agent: AgentVersion, watcher: Watcher) -> None:
        self._host = node.host
        self._connector = connector_of(node.host, plan.known_hosts)
        self._words = enter(node.host, agent, "hold", base_of(plan.run))
        self._order = json.dumps({"devices": list(node.devices)}).encode() + b"\n"
        self._watcher = watcher
        self._trouble = ""
        """Why it does not stand ready, as told last."""

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._hold()
            except LinkError as error:
                trouble = f"{error.reason}; {error.hint}" if error.hint else error.reason
                if trouble != self._trouble:
                    self._trouble = trouble
                    self._watcher.phase(f"note: spare {self._host.name} does not stand ready: {trouble}")
            await asyncio.sleep(RETRY_S)

    async def _hold(self) -> NoReturn:
        """Hold it for as long as that lasts. Raises LinkError with what ended it, or was in the way."""
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
                self._tell_ready()
                while await child.readline():
                    pass
            child.close_stdin()
            raise why_ended(self._connector, await child.wait())
        finally:
            await child.leave(leave_s)

    async def _answer(self, child: Child) -> bytes:
        """Its first line, b"" when it ended. Raises LinkError when it says nothing."""
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                await child.send(self._order)
                return await child.readline()
        except ConnectionError:
            return b""
        except TimeoutError:
            raise LinkError(f"no answer within {HELLO_TIMEOUT_S:g} s", f"check that {self._host.name} is up") from None

    def _tell_ready(self) -> None:
        if self._trouble:
            self._trouble = ""
            self._watcher.phase(f"note: spare {self._host.name} stands ready again")


class _SpareAnswer(msgspec.Struct):
    taken: list[str] = []
    error: str = ""


def _refusal(answer: bytes) -> LinkError | None:
    with contextlib.suppress(NotAnAnswerError):
        said = decoded(answer, _SpareAnswer)
        if said.taken:
            return LinkError("; ".join(said.taken), "pylaunch gpus shows who holds what")
        if said.error:
            return LinkError(said.error)
    return None
