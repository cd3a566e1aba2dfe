"""The only place on the controller that starts a process.

Children have no terminal and a session of their own: Ctrl-C reaches pylaunch alone, which decides what it ends.

A process may leave a background process (the shared connection of ssh) that keeps its pipes open for minutes. Once the
child has ended, what the pipes already hold is read, and nothing more is awaited.
"""

import asyncio
import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pylaunch.base.dataclass import dataclass
from pylaunch.errors import ClusterNotReadyError, PylaunchError, UsageError
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.transport import interrupts

OF_HOST = 10
"""Descriptors for one host: two processes, and the pipes of one that is being started.

Each ssh has three pipes and a descriptor that reports its end. A soft limit of 1024, the default of most systems, is
reached with some 120 hosts.
"""

OF_PYLAUNCH = 64


def hosts_at_once(count: int) -> int:
    """Raise the soft limit of open files for processes of `count` hosts, each OF_HOST, as far as the hard one permits.

    Return how many of the hosts may have processes at the same time.
    """
    needed = OF_PYLAUNCH + OF_HOST * count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard) or hard >= needed:
        if soft != resource.RLIM_INFINITY and soft < needed:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        return count
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max(1, (hard - OF_PYLAUNCH) // OF_HOST)


def allow_hosts(count: int) -> None:
    """Permit processes of `count` hosts at the same time. Raises ClusterNotReadyError for a lower hard limit."""
    if hosts_at_once(count) < count:
        needed, hard = OF_PYLAUNCH + OF_HOST * count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        raise ClusterNotReadyError(
            f"{count} hosts need {needed} open files, and this process may open {hard}",
            hint=f"raise the hard limit of this user (nofile in /etc/security/limits.d), then: ulimit -n {needed}",
        )


MAX_LINE = 1 << 22
QUIET_S = 0.5
"""Seconds of silence, after the end of a process, until pipes that others keep open count as read."""

POLL_S = 0.1
"""Interval of polling a process where the kernel has no pidfd (before Linux 5.3)."""

CHUNK = 1 << 16
MOST = 64 << 20
"""Bytes that a process may print: far more than any answer, and little enough to keep in memory."""

STDERR_KEPT = 64 * 1024
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
OBEYS_S = 1.0
"""Seconds between SIGTERM and SIGKILL."""

_running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
"""Processes whose end is awaited and has not come."""


class ProgramNotFoundError(UsageError):
    """The program to start is not installed, or not in PATH."""

    def __init__(self, program: str) -> None:
        super().__init__(f"program not found: {program}", hint=f"install {program}, or add its directory to PATH")
        self.program = program


class TimedOutError(PylaunchError):
    """A process ran longer than its limit, and was killed."""


@dataclass(frozen=True)
class Completed:
    """A process that has ended, with its output."""

    argv: Argv
    returncode: int
    """As in `subprocess`: a negative number is the signal that ended it."""

    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """The exit status is 0."""
        return self.returncode == 0

    def checked(self, *, error: type[PylaunchError] = PylaunchError, hint: str | None = None) -> "Completed":
        """Return the process if it exited with 0; else raise `error` with the command and its last lines."""
        if self.ok:
            return self
        raise error(
            f"{describe_exit(self.returncode)}: {quoted(self.argv)}",
            evidence=[*self.stdout.splitlines()[-5:], *self.stderr.splitlines()[-15:]],
            hint=hint,
        )


def describe_exit(returncode: int) -> str:
    """Return the exit status as text: "exit code 3", "killed by SIGKILL"."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def last_line(text: str, *, default: str = "no output") -> str:
    """Return the last line of `text` that is not blank, or `default`."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), default)


def run(
    argv: Argv,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
) -> Completed:
    """`communicate` for callers without an event loop; a signal ends the process and raises KeyboardInterrupt."""
    return interrupts.run(communicate(argv, stdin=stdin, env=env, cwd=cwd, timeout_s=timeout_s))


async def communicate(
    argv: Argv,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
) -> Completed:
    """Run `argv` to its end and capture its output. `env` is added to the environment of this process.

    The process has ended when this returns, raises or is cancelled, even if others keep its pipes open. Raises
    ProgramNotFoundError, and PylaunchError when it runs longer than `timeout_s` or prints too much.
    """
    async with running(argv, stdin=stdin, env=env, cwd=cwd) as child:
        try:
            async with asyncio.timeout(timeout_s):
                ended = await child.wait()
        except TimeoutError:
            raise TimedOutError(f"no end after {timeout_s:g} s: {quoted(argv)}") from None
    if child.has_flooded:
        raise PylaunchError(f"more than {MOST >> 20} MiB of output: {quoted(argv)}")
    return ended


@contextlib.asynccontextmanager
async def running(
    argv: Argv, *, stdin: bytes, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator["Child"]:
    """Run `argv`, whose whole stdin is `stdin`, for this block: it is killed at the end. Raises as `spawn`."""
    child = await spawn(argv, env=env, cwd=cwd)
    try:
        child.write(stdin)
        child.close_stdin()
        yield child
    finally:
        await child.kill()


def end_running() -> None:
    """Send SIGKILL to every process whose end is awaited, and return at once."""
    for process in tuple(_running):
        _kill_family(process)


def start_daemon(argv: Argv, *, log: Path, env: Mapping[str, str] | None = None) -> int:
    """Start `argv` as a daemon that appends its output to `log`, and return its process id."""
    with log.open("ab") as sink, _finding(argv):
        daemon = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=_environment(env), start_new_session=True
        )  # fmt: skip
    return daemon.pid


@contextlib.contextmanager
def guarded(argv: Argv) -> Iterator[None]:
    """Run `argv` as a guard process for this block: it reads one byte when the block ends, and end of file without that
    byte when this process is killed inside the block."""
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as guard:
        try:
            yield
        finally:
            guard.communicate(b"w")


class _FloodError(Exception):
    """A process printed more than MOST bytes."""


def _end_descriptor(pid: int) -> int | None:
    """Return a descriptor that is readable once the child `pid` has ended; None where the kernel has no pidfd."""
    with contextlib.suppress(OSError, AttributeError):  # Python on macOS has no pidfd_open.
        return os.pidfd_open(pid)
    return None


class _Writing(asyncio.BaseProtocol):
    """Flow control of the pipe to a process: `room` waits while the pipe is full."""

    def __init__(self) -> None:
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_lost = False

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._has_room.set()

    async def room(self) -> None:
        await self._has_room.wait()


@dataclass(frozen=True)
class _Pipes:
    """The three pipes of a process, on the event loop."""

    stdin: asyncio.WriteTransport
    writing: _Writing
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    readings: tuple[asyncio.ReadTransport, asyncio.ReadTransport]

    async def send(self, line: bytes) -> None:
        """Write `line` and wait until the pipe has room again. Raises ConnectionError when the reader has closed it."""
        if not self.stdin.is_closing():
            self.stdin.write(line)
            await self.writing.room()
        if self.stdin.is_closing():
            raise ConnectionError("its stdin is closed")

    def close(self) -> None:
        """Close this end of all pipes."""
        if not self.writing.is_lost:
            self.writing.is_lost = True
            self.stdin.abort()
        for transport in self.readings:
            transport.close()


async def _piped(stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes], *, longest: int) -> _Pipes:
    """Put the pipes of a process on the event loop; lines may be `longest` bytes."""
    to_it, writing = await asyncio.get_running_loop().connect_write_pipe(_Writing, stdin)
    from_stdout, stdout_transport = await _reader(stdout, longest)
    from_stderr, stderr_transport = await _reader(stderr, longest)
    return _Pipes(to_it, writing, from_stdout, from_stderr, (stdout_transport, stderr_transport))


async def _reader(pipe: IO[bytes], longest: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader(limit=longest)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader, transport


async def _end_of(pid: int, has_ended: Callable[[], bool]) -> None:
    """Wait until the child `pid` has ended, without regard to its pipes."""
    descriptor = _end_descriptor(pid)
    if descriptor is None:
        while not has_ended():
            await asyncio.sleep(POLL_S)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        while not has_ended():
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _rest_of(reader: asyncio.StreamReader, ended: asyncio.Future[None]) -> bytes:
    """Return the data of `reader` until it is closed, or until its process has `ended` and QUIET_S passed in silence.

    Raises _FloodError.
    """
    rest = bytearray()
    while True:
        reading = asyncio.ensure_future(reader.read(CHUNK))
        try:
            either: tuple[asyncio.Future[Any], ...] = (reading, ended)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading}, timeout=QUIET_S)
        finally:
            is_read = not reading.cancel()
        if not is_read or not (chunk := reading.result()):
            return bytes(rest)
        rest += chunk
        if len(rest) > MOST:
            raise _FloodError


class Child:
    """A running process with line-based stdin and stdout. Made by `spawn`."""

    def __init__(self, argv: Argv, process: subprocess.Popen[bytes], pipes: _Pipes) -> None:
        self.argv = argv
        self._process = process
        self._pipes = pipes
        self._stderr = bytearray()
        self._kill_note = ""
        self.has_flooded = False
        """It was killed because it printed more than `MOST` bytes."""

        self._drain_stderr = asyncio.ensure_future(self._keep_stderr())
        self._end = asyncio.ensure_future(self._watch_end())
        self._completed: asyncio.Future[Completed] | None = None

    @property
    def stderr(self) -> str:
        """The end of what it wrote to stderr so far: at most STDERR_KEPT bytes."""
        return self._stderr.decode("utf-8", "replace") + self._kill_note

    async def send(self, line: bytes) -> None:
        """Write `line` and wait until the pipe has room again. Raises ConnectionError when its stdin is closed."""
        await self._pipes.send(line)

    def write(self, content: bytes) -> None:
        """Write `content` as it reads it, without waiting."""
        self._pipes.stdin.write(content)

    async def read(self, most: int) -> bytes:
        """Return the next bytes of its stdout, at least one and at most `most`; b"" at the end."""
        return await self._pipes.stdout.read(most)

    async def readline(self) -> bytes:
        """Return the next line of its stdout, with the newline; b"" at the end. Kill it for a line over MAX_LINE."""
        try:
            return await self._pipes.stdout.readline()
        except ValueError:
            self._kill(f"it sent a line of more than {MAX_LINE >> 20} MiB")
            return b""

    def close_stdin(self) -> None:
        """Close its stdin."""
        self._pipes.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self._end.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def leave(self, within_s: float) -> Completed:
        """Close its stdin and wait for its end; terminate it after `within_s` seconds."""
        self.close_stdin()
        await asyncio.wait({self._end}, timeout=within_s)
        return await self.end()

    async def end(self) -> Completed:
        """Terminate it: SIGTERM, then SIGKILL after OBEYS_S, which a stopped process needs."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._end.done():
                self.signal(number)
                await asyncio.wait({self._end}, timeout=OBEYS_S)
        return await self.wait()

    async def kill(self) -> None:
        """Send SIGKILL to it and its process group, unless it has ended; what it printed and nobody read is dropped."""
        _kill_family(self._process)
        await asyncio.wait({self._end}, timeout=OBEYS_S)
        self._pipes.close()
        self._drain_stderr.cancel()
        if self._completed is not None:
            self._completed.cancel()

    async def wait(self) -> Completed:
        """Wait for its end and return the rest of its stdout. Several callers may wait."""
        if self._completed is None:
            self._completed = asyncio.ensure_future(self._complete())
        return await asyncio.shield(self._completed)

    async def _complete(self) -> Completed:
        try:
            rest = await _rest_of(self._pipes.stdout, self._end)
        except _FloodError:
            self.has_flooded = True
            self._kill(f"it sent more than {MOST >> 20} MiB")
            rest = b""
        await self._end
        # An old OpenSSH leaves our stderr open in the shared connection it puts into the background.
        await asyncio.wait({self._drain_stderr}, timeout=QUIET_S)
        self._pipes.close()
        return Completed(self.argv, self._process.returncode, rest.decode("utf-8", "replace"), self.stderr)

    def _kill(self, why: str) -> None:
        """Send SIGKILL; `why` is appended to its stderr."""
        self.signal(signal.SIGKILL)
        self._kill_note = f"\n{why}\n"

    async def _watch_end(self) -> None:
        await _end_of(self._process.pid, lambda: self._process.poll() is not None)
        _running.discard(self._process)

    async def _keep_stderr(self) -> None:
        while chunk := await self._pipes.stderr.read(8192):
            self._stderr += chunk
            del self._stderr[:-STDERR_KEPT]


def ends(pid: int, within_s: float, *, after: signal.Signals | None = None) -> bool:
    """Return whether a process of this user ended within `within_s` seconds, after it got the signal `after`."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if after is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, after)
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(within_s * 1000))
    finally:
        os.close(process)


async def spawn(argv: Argv, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Child:
    """Start `argv` with pipes. Raises ProgramNotFoundError, and UsageError where `cwd` is missing."""
    with _finding(argv):
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=_environment(env), cwd=cwd, start_new_session=True,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    _running.add(process)
    try:
        pipes = await _piped(process.stdin, process.stdout, process.stderr, longest=MAX_LINE)
    except BaseException:  # Cancelled: the caller gets no `Child` that it could end.
        _kill_family(process)
        process.wait()
        _running.discard(process)
        raise
    return Child(argv, process, pipes)


def search_path(path: str) -> str:
    """Return `path` followed by the directories of administration programs that it lacks, as most users' PATH does."""
    directories = path.split(os.pathsep)
    return os.pathsep.join([*directories, *(each for each in SBIN if each not in directories)])


def program_path(name: str) -> str | None:
    """Return the path of the program `name`, found as for the processes started here; None where there is none."""
    return shutil.which(name, path=search_path(os.environ.get("PATH", os.defpath)))


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return this process's environment with `env` on top, and a PATH that finds `nft`, `sshd` and `debootstrap`."""
    whole = {**os.environ, **(env or {})}
    return {**whole, "PATH": search_path(whole.get("PATH", os.defpath))}


def _kill_family(process: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL to `process`, if it still runs, and to its process group (the ssh to a jump host)."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _finding(argv: Argv) -> Iterator[None]:
    """Start `argv` in this block. Raises ProgramNotFoundError, and UsageError where its directory is missing."""
    try:
        yield
    except FileNotFoundError as error:
        if error.filename is not None and error.filename != argv[0]:
            raise UsageError(f"no such directory: {error.filename}") from None
        raise ProgramNotFoundError(argv[0]) from None
