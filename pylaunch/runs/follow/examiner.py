"""Requests for views of the ranks of a run that a follower follows, each until its nodes have answered."""

import asyncio
from collections.abc import Callable, Collection

from pylaunch import protocol
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.follow.rank_views import RunSample, ViewRequest

EXAMINE_S = 4.0
"""For nodes to send the views of their ranks, which have half of that time to answer: a busy machine takes a second."""


class RunExaminer:
    """Sends requests beside the follower, which passes on the answers."""

    def __init__(self, fleet: Fleet, live: Callable[[], Collection[str]]) -> None:
        self._fleet = fleet
        self._live = live
        """Returns the hosts that have neither finished nor been lost."""

        self._requests: dict[int, ViewRequest] = {}
        """Requests that are under way, by serial."""

        self._last_serial = protocol.UNASKED
        self._answered = asyncio.Event()

    async def examine(
        self, *, call_sites: bool = False, progress: bool = False, node: bool = False, within_s: float = EXAMINE_S
    ) -> RunSample:
        """Return a view of every rank that runs and whose node answers within `within_s`.

        `call_sites` adds where each collective was called; `progress` asks for the last collective of each group only,
        which costs the ranks least; `node` adds the facts of the nodes.
        """
        self._last_serial += 1
        ask_s = within_s / 2
        asked = protocol.Examine(self._last_serial, call_sites, progress, ask_s, node)
        hosts = self._fleet.links.keys() & self._live()
        request = self._requests[asked.serial] = ViewRequest(asked, hosts)
        try:
            async with asyncio.timeout(within_s):
                await self._fleet.broadcast(asked, hosts)
                while request.waiting.intersection(self._live()):
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            pass  # Views of nodes that have not answered are missing.
        finally:
            del self._requests[asked.serial]
        return request.sample

    def take(self, host: str, message: protocol.RankView | protocol.HostEvidence | protocol.Examined) -> None:
        """Add a message of `host` to its request, if that is under way."""
        request = self._requests.get(message.serial)
        if request is not None:
            request.take(host, message, self._fleet.clock(host))

    def wake(self) -> None:
        """Let requests look again: a message arrived, and a host may have answered or be gone."""
        self._answered.set()
