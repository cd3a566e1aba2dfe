"""Time limits for what others have to say, which do not count time for which this process was stopped or held up.

When such a process continues, the answer is there and the limit of `asyncio.timeout` has passed: it would call the
other side silent.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

TICK_S = 0.5


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError in the block once this process has listened for `seconds`."""
    async with asyncio.timeout(None) as limit:
        counting = asyncio.ensure_future(_end(limit, seconds))
        try:
            yield
        finally:
            counting.cancel()


async def _end(limit: asyncio.Timeout, seconds: float) -> None:
    left_s = seconds
    while left_s > 0:
        tick_s = min(TICK_S, left_s)
        await asyncio.sleep(tick_s)  # However long it takes, it counts as one tick.
        left_s -= tick_s
    limit.reschedule(asyncio.get_running_loop().time())
