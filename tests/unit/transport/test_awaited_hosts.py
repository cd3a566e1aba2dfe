"""Awaited hosts: a limit for them does not count time in which this process was held up; silent ones are reported."""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from queue import SimpleQueue
from typing import TypeVar

import pytest

from pylaunch.transport import connections
from pylaunch.transport.connections import Awaited, patience

T = TypeVar("T")


class HeldUpLoop(asyncio.SelectorEventLoop):
    """An event loop of a process that can be held up."""

    held_up_s = 0.0

    def time(self) -> float:
        return super().time() + self.held_up_s


def ran(work: Coroutine[None, None, T], loop: HeldUpLoop) -> T:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)


async def answer(reading: int, is_listening: asyncio.Event) -> bytes:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb"))
    try:
        async with patience(5.0):
            is_listening.set()
            return await reader.readline()
    finally:
        transport.close()


def test_an_answer_that_arrived_while_this_process_was_held_up_is_read() -> None:
    loop, (reading, writing) = HeldUpLoop(), os.pipe()

    async def held_up() -> bytes:
        is_listening = asyncio.Event()
        asking = asyncio.ensure_future(answer(reading, is_listening))
        await is_listening.wait()
        os.write(writing, b"here\n")
        loop.held_up_s += 60.0
        return await asking

    assert ran(held_up(), loop) == b"here\n"
    os.close(writing)


def test_silence_ends_at_the_limit() -> None:
    async def silent() -> None:
        async with patience(0.01):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        ran(silent(), HeldUpLoop())


def test_a_host_that_has_not_answered_is_reported_once_with_the_time_that_is_left() -> None:
    now = 0.0
    awaited = Awaited(lambda: now)
    with awaited.hosts(["n1", "n2", "n3"], 15.0) as answered:
        assert awaited.silent() == ([], 3.0)
        answered("n1")
        now = 2.5
        with awaited.hosts(["n2", "n4"], 60.0):
            assert awaited.silent() == ([], 0.5)
            now = 3.0
            named, seconds = awaited.silent()
            assert (sorted(named), seconds) == (["n2", "n3"], 12.0), "the first deadline of a host is what it has"
            now = 5.5
            assert awaited.silent() == ([], 0.5), "two reports are not closer than the silence"
            now = 6.0
            assert awaited.silent() == (["n4"], 56.5)
            assert awaited.silent()[0] == []
    with awaited.hosts(["n2"], 15.0):
        now = 9.0
        assert awaited.silent() == (["n2"], 12.0), "it is awaited again"


def test_only_a_person_who_watches_hears_of_silent_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SILENT_S", 0.0)
    heard: SimpleQueue[Sequence[str]] = SimpleQueue()
    awaited = Awaited()
    with awaited.hosts(["n1"], 60.0):
        assert awaited._watch is None
    awaited.report_to(lambda hosts, seconds: heard.put(hosts))
    with awaited.hosts(["n2"], 60.0):
        assert heard.get(timeout=60.0) == ["n2"]
