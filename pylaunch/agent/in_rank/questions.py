"""Thread of a rank that answers questions of the agent: one line with words, one line of JSON back.

The thread blocks all signals, is unknown to `threading`, ends before each fork and starts again after it, so that a
fork copies no thread. (Python 3.13 counts threads after the hooks of a fork, so it may warn of this one.) It never
imports: an import in a thread could wait for a lock of the main thread. faulthandler writes the stacks at a signal that
nobody else uses, even while C code holds the GIL.
"""

import _signal  # type: ignore[import-not-found]  # `signal` would load enum, which costs more than all of this
import _socket
import _thread
import faulthandler
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

SIGNUM = 57
"""Real-time signal of faulthandler: libraries take numbers from either end of the range 34 to 64."""

THREAD = "pylaunch-helper"
"""Name of the thread, at most 15 characters: what it reads is not counted as data that the rank reads."""

ENDS_S = 0.2
"""Time that a fork waits for the thread, which may be in the middle of an answer."""

BEGINS_S = 1.0
"""Time that the start of the thread waits for its first instruction. Python up to 3.11 crashes if it finalizes before:
the new thread uses its state, which is freed then."""

GONE_S = 0.05
"""Time that a fork waits for the kernel to remove the thread: Python 3.12 counts threads right after the fork."""

CONNECTION_S = 1.0
LONGEST_QUESTION = 200
CREDENTIALS_SIZE = 12


class Questions:
    """Answers questions at a socket while the process lives. Raises OSError if it cannot listen."""

    def __init__(self, path: str, stacks: int, load: "Callable[[str], dict[str, Any]]") -> None:
        self._load = load
        self._answer: Callable[[list[str], int], str] | None = None
        self._main = _thread.get_ident()
        self._stacks = stacks
        self._mutex = _thread.allocate_lock()
        self._begun = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._is_alive = False
        self._tid = 0
        self._forks = 0
        """Forks that are under way, in any thread."""

        self._listener = listen(path)
        self._inode = os.fstat(self._listener.fileno()).st_ino
        self._woken, self._wake = os.pipe()

    def start(self) -> None:
        """Start the thread and let it end before forks; take the signal of faulthandler."""
        faulthandler.register(SIGNUM, self._stacks, all_threads=True, chain=False)
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._leave_to_parent
        )
        with self._mutex:
            self._start_thread()

    def _start_thread(self) -> None:
        others = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
        try:
            self._ended.acquire(False)
            self._begun.acquire(False)
            _thread.start_new_thread(self._serve, ())
            self._is_alive = True
            self._begun.acquire(True, BEGINS_S)
        except RuntimeError:  # No thread can be created: a limit, or Python is about to exit.
            self._is_alive = False
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, others)

    def _before_fork(self) -> None:
        with self._mutex:
            self._forks += 1
            ends = self._forks == 1 and self._is_alive
        if ends:
            try:
                os.write(self._wake, b"f")
            except OSError:
                return  # The script has closed all descriptors, and the thread has ended.
            if self._ended.acquire(True, ENDS_S):
                self._ended.release()
                wait_until_gone(self._tid)

    def _after_fork(self) -> None:
        with self._mutex:
            self._forks -= 1
            if not self._forks and not self._is_alive and self._is_listening():
                self._start_thread()

    def _leave_to_parent(self) -> None:
        """Give up in a forked child: the parent answers for the rank."""
        faulthandler.unregister(SIGNUM)
        if self._is_listening():
            self._listener.close()
            for descriptor in (self._stacks, self._woken, self._wake):
                os.close(descriptor)

    def _is_listening(self) -> bool:
        """Return whether the descriptors are still ours: a script may close all that it did not open."""
        try:
            return os.fstat(self._listener.fileno()).st_ino == self._inode
        except OSError:
            return False

    def _serve(self) -> None:
        self._tid = _thread.get_native_id()
        name_thread(
            self._tid
        )  # While the script waits: it may close all descriptors, and open its own with their numbers.
        self._begun.release()
        try:
            waiting = select.poll()
            for descriptor in (self._listener.fileno(), self._woken):
                waiting.register(descriptor, select.POLLIN)
            while self._serve_next(waiting.poll()):
                pass
        except Exception:  # noqa: BLE001 -- the stderr of the rank is the script's
            self._end()

    def _serve_next(self, ready: "list[tuple[int, int]]") -> bool:
        """Handle what poll returned. Return False when the thread has to end."""
        if not self._is_listening() or any(event & ~select.POLLIN for _, event in ready):
            self._end()
            return False
        for descriptor, _ in ready:
            if descriptor == self._woken:
                os.read(self._woken, 64)
                with self._mutex:
                    if self._forks:
                        self._is_alive = False
                        self._ended.release()
                        return False
            else:
                self._serve_connection()
        return True

    def _end(self) -> None:
        with self._mutex:
            self._is_alive = False
            if self._ended.locked():
                self._ended.release()

    def _serve_connection(self) -> None:
        descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 -- `accept` of the module socket
        connection = _socket.socket(fileno=descriptor)
        try:
            connection.settimeout(CONNECTION_S)
            if user_of(connection) in (0, os.getuid()):
                question = connection.recv(LONGEST_QUESTION)
                connection.sendall(self._answered(question.split()).encode("ascii") + b"\n")
        except OSError:
            pass  # The agent has given up.
        finally:
            connection.close()

    def _answered(self, words: "list[bytes]") -> str:
        if self._answer is None:
            self._answer = self._load("answers")["answer"]
        return self._answer([word.decode("ascii", "replace") for word in words], self._main)


def name_thread(tid: int) -> None:
    """Give the thread `tid` of this process its name, where the kernel permits it."""
    try:
        descriptor = os.open(f"/proc/self/task/{tid}/comm", os.O_WRONLY)
        try:
            os.write(descriptor, THREAD.encode())
        finally:
            os.close(descriptor)
    except OSError:
        pass


def wait_until_gone(tid: int) -> None:
    """Wait until the kernel does not list the thread `tid`, which has nothing left to do. At most GONE_S."""
    path = f"/proc/self/task/{tid}"
    until = time.monotonic() + GONE_S
    while os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.0002)


def user_of(connection: _socket.socket) -> int:
    """Return the user id of the other side: the second of three integers of SO_PEERCRED (unix(7))."""
    credentials = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, CREDENTIALS_SIZE)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def listen(path: str) -> _socket.socket:
    """Return a listener at `path` with mode 0600, in place of the socket of a process that has ended."""
    directory, _, name = path.rpartition("/")
    if os.path.lexists(path):
        os.unlink(path)
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    parent = os.open(directory, os.O_PATH | os.O_DIRECTORY)  # sun_path holds 108 bytes, and the path may be longer.
    try:
        listener.bind(f"/proc/self/fd/{parent}/{name}")
    finally:
        os.close(parent)
    os.chmod(path, 0o600)
    listener.listen(8)
    return listener
