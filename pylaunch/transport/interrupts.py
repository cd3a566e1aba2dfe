"""Handle SIGINT and SIGTERM of this process: the first requests a stop, the second ends the process even if it hangs.

The first raises KeyboardInterrupt or goes to a receiver (`received_by`), which stops the run that it follows. After the
second, LAST_S remain for cleanup. Then, or at the third, the process kills the processes that it has started, restores
the terminal, writes its final message and exits without waiting.
"""

import asyncio
import atexit
import contextlib
import os
import select
import signal
import termios
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import NoReturn, TypeVar

T = TypeVar("T")

LAST_S = 2.0
"""Seconds for cleanup between the second signal and the end."""

_SHOW_CURSOR = b"\x1b[?25h"


class _Interrupts:
    """Counts the signals of this process."""

    def __init__(self) -> None:
        self.receiver: Callable[[signal.Signals], object] | None = None
        self.last_s = LAST_S
        self.is_leaving = False
        self._number = 0
        self._last_words = b""
        self._exit_code = 128 + signal.SIGINT
        self._terminal: list[int | list[bytes | int]] | None = None
        self.end_processes: Callable[[], None] = lambda: None

    def install(self, last_words: str, exit_code: int, end_processes: Callable[[], None]) -> None:
        self._last_words, self._exit_code, self.end_processes = last_words.encode(), exit_code, end_processes
        with contextlib.suppress(termios.error):
            self._terminal = termios.tcgetattr(0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._arrived)
        signal.signal(signal.SIGALRM, self._end)
        # Registered first, so called last. After it, Python would restore the default action, and a late signal would
        # replace the exit code.
        atexit.register(_ignore)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self._number += 1
        if self._number > 2 or self.is_leaving:
            self._end(number, frame)
        if self._number == 2:
            signal.setitimer(signal.ITIMER_REAL, self.last_s)
        if self.receiver is None:
            raise KeyboardInterrupt(signal_words(signal.Signals(number)))
        self.receiver(signal.Signals(number))

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        self.end_processes()
        if self._terminal is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._terminal)
        words = (b"\r" + _SHOW_CURSOR if os.isatty(2) else b"") + self._last_words + b"\n"
        # Writing to a paused terminal (Ctrl-S) or a full pipe would hang, too.
        _, writable, _ = select.select([], [2], [], 0)
        if writable:
            with contextlib.suppress(OSError):
                os.write(2, words)
        os._exit(self._exit_code)


def _ignore() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


_of_this_process = _Interrupts()


def signal_words(number: signal.Signals) -> str:
    """Return the signal as text: the person at the keyboard sends SIGINT, programs send SIGTERM."""
    return "interrupted" if number is signal.SIGINT else f"pylaunch received {number.name}"


def install(last_words: str, exit_code: int, end_processes: Callable[[], None]) -> None:
    """Handle signals from now on; call it in the main thread.

    A forced end calls `end_processes`, prints `last_words` and has `exit_code`.
    """
    _of_this_process.install(last_words, exit_code, end_processes)


def leaving() -> None:
    """Mark the work as done: from now on the first signal ends this process at once."""
    _of_this_process.is_leaving = True
    _of_this_process.end_processes()


@contextlib.contextmanager
def received_by(receiver: Callable[[signal.Signals], object], last_s: float = LAST_S) -> Iterator[None]:
    """Pass signals to `receiver`, in the main thread; `last_s` seconds after the second one the process ends."""
    before = _of_this_process.receiver, _of_this_process.last_s
    _of_this_process.receiver, _of_this_process.last_s = receiver, last_s
    try:
        yield
    finally:
        _of_this_process.receiver, _of_this_process.last_s = before


InterruptSource = Callable[[Callable[[str], object], float], contextlib.AbstractContextManager[None]]
"""Deliver the reason of each interrupt to a receiver while a block runs, which may take some seconds after the second
interrupt. The receiver may be called from any thread."""


def signals(receiver: Callable[[str], object], last_s: float) -> contextlib.AbstractContextManager[None]:
    """SIGINT and SIGTERM of this process, where `install` was called."""
    return received_by(lambda number: receiver(signal_words(number)), last_s)


class Interrupter:
    """Interrupts that a program sends from any thread: the first one stops the run, the second one kills it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[str] = []
        self._receiver: Callable[[str], object] | None = None

    def interrupt(self, reason: str) -> None:
        """End the work that runs now, or else the next one as soon as it begins."""
        with self._lock:
            if self._receiver is None:
                self._pending.append(reason)
            else:
                self._receiver(reason)

    @contextlib.contextmanager
    def __call__(self, receiver: Callable[[str], object], last_s: float) -> Iterator[None]:
        """Deliver to `receiver`; an `InterruptSource`."""
        with self._lock:
            self._receiver = receiver
            for reason in self._pending:
                receiver(reason)
            self._pending.clear()
        try:
            yield
        finally:
            with self._lock:
                self._receiver = None


def run(work: Coroutine[None, None, T]) -> T:
    """Run `work` on a new event loop and return its result.

    In the main thread, a signal cancels `work`, so that it ends its processes in order; then this raises
    KeyboardInterrupt. A caller in an event loop, as a cell of a notebook is, waits for another thread; an exception
    that a signal raises there cancels `work`, too.
    """
    if _is_in_loop():
        return _run_in_thread(work)
    return asyncio.run(_until_interrupted(work) if threading.current_thread() is threading.main_thread() else work)


def _run_in_thread(work: Coroutine[None, None, T]) -> T:
    from concurrent.futures import Future, ThreadPoolExecutor  # noqa: PLC0415 -- 1 ms that only a notebook needs

    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Future[T]]] = Future()

    async def cancellable() -> T:
        task = asyncio.ensure_future(work)
        begun.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(asyncio.run, cancellable())
        try:
            return ended.result()
        except BaseException:
            if not ended.done():
                loop, task = begun.result()
                with contextlib.suppress(RuntimeError):  # The loop was closed meanwhile.
                    loop.call_soon_threadsafe(task.cancel)
            raise


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _until_interrupted(work: Coroutine[None, None, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def interrupt(number: signal.Signals) -> None:
        received.append(number)
        loop.call_soon_threadsafe(task.cancel)

    with received_by(interrupt):
        await asyncio.wait({task})
    if received and (task.cancelled() or task.exception() is None):  # A signal as `work` ends is not lost.
        raise KeyboardInterrupt(signal_words(received[0]))
    return task.result()
