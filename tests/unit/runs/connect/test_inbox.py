"""Bytes that may wait in the inbox: of each host, in total, and nothing is dropped."""

import asyncio

import pytest

from pylaunch.runs.connect.inbox import LEAST_SHARE, MOST_BYTES, MOST_MESSAGES, Inbox

LONGEST = 4 << 20


class Flood:
    """Messages of one host without end, as its reader puts them into an inbox."""

    def __init__(self, inbox: Inbox, host: str, size: int) -> None:
        self.sent = 0
        self._inbox = inbox
        self._host = host
        self._size = size
        self._task = asyncio.ensure_future(self._run())

    async def stalls(self) -> int:
        """Return the number of messages sent, once the host has to wait."""
        before = -1
        while before != self.sent:
            before = self.sent
            await _turns()
        return self.sent

    def end(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while self.sent * self._size < 64 * MOST_BYTES:
            await self._inbox.put(self._host, self.sent, self._size)
            self.sent += 1
            await self._inbox.room(self._host)


async def _turns() -> None:
    """Let everything run that can run: nothing here waits for the world outside."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("hosts", [1, 2, 16, 1000])
@pytest.mark.parametrize("size", [1000, 1 << 16, LONGEST])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_host_that_floods_waits_once_its_share_of_the_bytes_waits(hosts: int, size: int, is_kept: bool) -> None:
    async def story() -> None:
        inbox = Inbox(hosts)
        flood = Flood(inbox, "n1", size)
        if is_kept:
            keeping = asyncio.ensure_future(_keep_all(inbox))
        sent = await flood.stalls()
        share = max(LEAST_SHARE, MOST_BYTES // hosts)
        assert sent * size < share + size
        assert is_kept or sent <= MOST_MESSAGES + 1
        if is_kept:
            assert sent == -(-share // size), "an honest node may use the whole share"
            keeping.cancel()
            await _turns()
            inbox.put_back()
        for number in range(sent + 3):
            assert await inbox.hear() == ("n1", number), "nothing is lost"
            await _turns()
        flood.end()

    asyncio.run(story())


async def _keep_all(inbox: Inbox) -> None:
    while True:
        await inbox.hear()
        inbox.keep()


def test_messages_of_a_host_are_heard_while_another_one_floods() -> None:
    async def story() -> None:
        inbox = Inbox(2)
        flood = Flood(inbox, "n1", LONGEST)
        keeping = asyncio.ensure_future(_keep_all(inbox))
        await flood.stalls()
        keeping.cancel()
        await _turns()
        await inbox.put("n2", "honest", 100)
        assert await inbox.hear() == ("n2", "honest")
        flood.end()

    asyncio.run(story())


def test_a_message_counts_until_the_next_one_is_heard() -> None:
    async def story() -> None:
        inbox = Inbox(1)
        flood = Flood(inbox, "n1", MOST_BYTES)
        assert await flood.stalls() == 1
        await inbox.hear()
        assert await flood.stalls() == 1, "the message that is being handled is in memory"
        assert await inbox.hear() == ("n1", 1)
        flood.end()

    asyncio.run(story())
