import asyncio
import signal
import threading

import pytest

from pylaunch.transport import interrupts


def test_a_signal_that_arrives_as_the_work_ends_is_not_lost() -> None:
    async def work() -> None:
        receiver = interrupts._of_this_process.receiver
        assert receiver is not None
        receiver(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        interrupts.run(work())


def test_an_interrupt_of_a_cell_of_a_notebook_ends_its_work_in_the_other_thread() -> None:
    was_cancelled = False

    async def work() -> None:
        nonlocal was_cancelled
        await asyncio.sleep(0.5)  # The caller waits for this thread.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    async def cell() -> None:
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupts.run(work())
        finally:
            signal.signal(signal.SIGINT, before)

    asyncio.run(cell())
    assert was_cancelled
