"""The only place on the controller that starts a process.

Children get no terminal and their own session, so that Ctrl-C reaches pylaunch alone and pylaunch decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.argv import Argv, quoted

MAX_LINE = 1 << 22
STDERR_KEPT = 64 * 1024
STDERR_PATIENCE_S = 0.5


@dataclass(frozen=True)
class Completed:
    """A process that ended."""

    argv: Argv
    returncode: int
    """As in `subprocess`: negative is the signal that ended it."""

    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """It exited with 0."""
        return self.returncode == 0

    def checked(self, *, error: type[PylaunchError] = PylaunchError, hint: str | None = None) -> Completed:
        """Itself if it exited with 0; else raises `error` with the command and its last lines."""
        if self.ok:
            return self
        raise error(
            f"{describe_exit(self.returncode)}: {quoted(self.argv)}",
            evidence=[*self.stdout.splitlines()[-5:], *self.stderr.splitlines()[-15:]],
            hint=hint,
        )


def describe_exit(returncode: int) -> str:
    """How a process ended, in words: "exit code 3", "killed by SIGKILL"."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


class Together:
    """Processes of several threads that have one end: leaving it by an exception, or `end`, kills what still runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._has_ended = False

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.end()

    def end(self) -> None:
        """Nobody wants their answers any more. What has not been started yet never is."""
        with self._lock:
            self._has_ended = True
            for process in self._running:
                _kill_family(process)

    def run(self, argv: Argv, *, stdin: bytes, timeout_s: float) -> Completed:
        """As `run`, for as long as the others run. Raises PylaunchError when all have ended."""
        with self._lock:
            if self._has_ended:
                raise PylaunchError(f"no longer wanted: {quoted(argv)}")
            try:
                process = subprocess.Popen(
                    argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
                )
            except FileNotFoundError as error:
                raise _not_found(argv, error) from None
            self._running.add(process)
        with process:
            try:
                stdout, stderr = process.communicate(stdin, timeout_s)
            except subprocess.TimeoutExpired:
                raise _too_late(argv, timeout_s) from None
            finally:
                with self._lock:
                    self._running.discard(process)
                _kill_family(process)
        return Completed(argv, process.returncode, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))


def run(
    argv: Argv,
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
) -> Completed:
    """Run `argv` to its end and capture what it says. `env` is added to our own environment.

    Raises UsageError when the program does not exist and PylaunchError when it outlives `timeout_s`.
    """
    try:
        ended = subprocess.run(
            argv,
            input=stdin if stdin is not None else b"",
            capture_output=True,
            env=merged(env),
            cwd=cwd,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise _not_found(argv, error) from None
    except subprocess.TimeoutExpired:
        raise _too_late(argv, timeout_s) from None
    return Completed(
        argv, ended.returncode, ended.stdout.decode("utf-8", "replace"), ended.stderr.decode("utf-8", "replace")
    )


def run_on_terminal(argv: Argv, *, env: Mapping[str, str] | None = None) -> int:
    """Run `argv` with our own terminal, for programs a person talks to. The exit status as the shell has it."""
    try:
        returncode = subprocess.run(argv, env=merged(env), check=False).returncode
    except FileNotFoundError as error:
        raise _not_found(argv, error) from None
    return returncode if returncode >= 0 else 128 - returncode


def start_daemon(argv: Argv, *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Start `argv` so that it outlives us, output appended to `log`; its process id."""
    with log.open("ab") as sink:
        try:
            daemon = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=merged(env), cwd=cwd,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise _not_found(argv, error) from None
    return daemon.pid


@contextlib.contextmanager
def guarded(argv: Argv) -> Iterator[None]:
    """Have `argv` wait beside what is done here: its stdin says one byte when that is over, and ends without one when
    this process is killed meanwhile."""
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as guard:
        try:
            yield
        finally:
            guard.communicate(b"w")


@dataclass(frozen=True)
class Background:
    """The other half of this program after `fork_to_background`."""

    pid: int
    descriptor: int
    """A pipe: the half in the background says on it, in one byte, that it is well on its way."""

    def is_well(self, timeout_s: float) -> bool | None:
        """Whether it has said so; False when it ended before; None when neither has happened in `timeout_s`."""
        ready, _, _ = select.select([self.descriptor], [], [], timeout_s)
        return bool(os.read(self.descriptor, 1)) if ready else None

    def interrupt(self) -> None:
        """Pass Ctrl-C on: it has no terminal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    def exit_code(self) -> int:
        """Wait for its end."""
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


@dataclass(frozen=True)
class Foreground:
    """The half of this program that waits at the terminal, as the one in the background sees it."""

    descriptor: int

    def let_go(self) -> None:
        """Say that all is well; it need not be there any more."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.descriptor, b"w")


def fork_to_background(log: Path) -> Background | Foreground:
    """Become two: each is told of the other. Both return from here.

    The one in the background has a session of its own, no terminal, and `log` for stdout and stderr.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Background(pid, reading)
    os.close(reading)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    return Foreground(writing)


class Child:
    """A running process that we talk to in lines. Made by `spawn`."""

    def __init__(self, argv: Argv, process: asyncio.subprocess.Process) -> None:
        self.argv = argv
        self._process = process
        self._stderr = bytearray()
        self._drain_stderr = asyncio.ensure_future(self._keep_stderr())

    @property
    def stderr(self) -> str:
        """The last of what it wrote to stderr so far."""
        return self._stderr.decode("utf-8", "replace")

    async def send(self, line: bytes) -> None:
        """Write `line`; returns when the pipe has room again. Raises ConnectionError when it no longer listens."""
        if self._process.stdin is None:
            raise ConnectionError("stdin is closed")
        self._process.stdin.write(line)
        await self._process.stdin.drain()

    async def readline(self) -> bytes:
        """The next line of its stdout, with the newline; b"" at the end. Raises ValueError for an endless line."""
        assert self._process.stdout is not None
        return await self._process.stdout.readline()

    def close_stdin(self) -> None:
        """Tell it that nothing more will come."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def leave(self, within_s: float) -> None:
        """Tell it that nothing more will come, and wait for its end: after `within_s` it is made to end."""
        self.close_stdin()
        ending = asyncio.ensure_future(self.wait())
        await asyncio.wait({ending}, timeout=within_s)
        if not ending.done():
            self.signal(signal.SIGTERM)
        await ending

    async def wait(self) -> Completed:
        """Wait for its end. What it still wrote to stdout is in the answer."""
        assert self._process.stdout is not None
        rest = await self._process.stdout.read()
        returncode = await self._process.wait()
        # An old OpenSSH leaves our stderr open in the shared connection it puts into the background.
        await asyncio.wait({self._drain_stderr}, timeout=STDERR_PATIENCE_S)
        return Completed(self.argv, returncode, rest.decode("utf-8", "replace"), self.stderr)

    async def _keep_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(8192):
            self._stderr += chunk
            del self._stderr[:-STDERR_KEPT]


def interrupt(pid: int, within_s: float) -> bool:
    """Ctrl-C for another process of ours; whether it has ended within so many seconds."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGINT)
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(within_s * 1000))
    finally:
        os.close(process)


async def spawn(argv: Argv, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Child:
    """Start `argv` with pipes. Raises UsageError when the program does not exist."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=merged(env),
            cwd=cwd,
            start_new_session=True,
            limit=MAX_LINE,
        )
    except FileNotFoundError as error:
        raise _not_found(argv, error) from None
    return Child(argv, process)


def merged(env: Mapping[str, str] | None) -> dict[str, str] | None:
    """Our environment with `env` on top; None when there is nothing to add."""
    return None if env is None else {**os.environ, **env}


def _kill_family(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to `process`, if it still runs, and to what it has started (a jump host's ssh) in its session."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _too_late(argv: Argv, timeout_s: float | None) -> PylaunchError:
    return PylaunchError(f"no end after {timeout_s:g} s: {quoted(argv)}")


def _not_found(argv: Argv, error: FileNotFoundError) -> UsageError:
    if error.filename is not None and error.filename != argv[0]:
        return UsageError(f"no such directory: {error.filename}")
    return UsageError(f"program not found: {argv[0]}", hint=f"install {argv[0]}, or add its directory to PATH")
