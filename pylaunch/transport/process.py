"""The only place on the controller that starts a process.

Children get no terminal and their own session, so that Ctrl-C reaches pylaunch alone and pylaunch decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.argv import Argv, quoted
from pylaunch.transport import pipes

MAX_LINE = 1 << 22
STDERR_KEPT = 64 * 1024
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
OBEYS_S = 1.0
"""After SIGTERM, until SIGKILL."""

_running: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()
"""What was started to be heard to its end, and has not ended."""


class ProgramNotFoundError(UsageError):
    """The program to start is not installed, or not in PATH."""

    def __init__(self, program: str) -> None:
        super().__init__(f"program not found: {program}", hint=f"install {program}, or add its directory to PATH")
        self.program = program


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


def last_line(text: str, *, default: str = "no output") -> str:
    """Return the last line of `text` that is not blank, or `default`."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), default)


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
            process = _started(argv)
            self._running.add(process)
        try:
            return _to_its_end(process, argv, stdin, timeout_s)
        finally:
            with self._lock:
                self._running.discard(process)


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
    return _to_its_end(_started(argv, env=env, cwd=cwd), argv, stdin or b"", timeout_s)


def _started(argv: Argv, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(env), cwd=cwd,
            start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise _not_found(argv, error) from None
    _running.add(process)
    return process


def _to_its_end(process: subprocess.Popen[bytes], argv: Argv, stdin: bytes, timeout_s: float | None) -> Completed:
    """What `process` says. It has ended when this returns or raises, whoever keeps its pipes open."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdin, process.stdout, process.stderr:
        try:
            stdout, stderr = pipes.converse(
                process.pid,
                (process.stdin, process.stdout, process.stderr),
                stdin,
                lambda: process.poll() is not None,
                timeout_s,
            )
        except TimeoutError:
            raise PylaunchError(f"no end after {timeout_s:g} s: {quoted(argv)}") from None
        except pipes.FloodError:
            raise PylaunchError(f"more than {pipes.MOST >> 20} MiB of output: {quoted(argv)}") from None
        finally:
            _kill_family(process)
            process.wait()
            _running.discard(process)
    return Completed(argv, process.returncode, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))


def end_running() -> None:
    """SIGKILL to every process that was started to be heard to its end and has not ended, without waiting for it."""
    for process in tuple(_running):
        _kill_family(process)


def run_on_terminal(argv: Argv, *, env: Mapping[str, str] | None = None) -> int:
    """Run `argv` with our own terminal, for programs a person talks to. The exit status as the shell has it."""
    try:
        returncode = subprocess.run(argv, env=_environment(env), check=False).returncode
    except FileNotFoundError as error:
        raise _not_found(argv, error) from None
    return returncode if returncode >= 0 else 128 - returncode


def start_daemon(argv: Argv, *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Start `argv` so that it outlives us, output appended to `log`; its process id."""
    with log.open("ab") as sink:
        try:
            daemon = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=_environment(env), cwd=cwd,
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

    def __init__(self, argv: Argv, process: subprocess.Popen[bytes], talk: pipes.Talk) -> None:
        self.argv = argv
        self._process = process
        self._talk = talk
        self._stderr = bytearray()
        self._last_words = ""
        self._drain_stderr = asyncio.ensure_future(self._keep_stderr())
        self._end = asyncio.ensure_future(self._watch_end())
        self._completed: asyncio.Future[Completed] | None = None

    @property
    def stderr(self) -> str:
        """The last of what it wrote to stderr so far."""
        return self._stderr.decode("utf-8", "replace") + self._last_words

    async def send(self, line: bytes) -> None:
        """Write `line`; returns when the pipe has room again. Raises ConnectionError when it no longer listens."""
        await self._talk.send(line)

    async def readline(self) -> bytes:
        """The next line of its stdout, with the newline; b"" at the end. A line without end gets it killed."""
        try:
            return await self._talk.stdout.readline()
        except ValueError:
            self._kill(f"it sent a line of more than {MAX_LINE >> 20} MiB")
            return b""

    def close_stdin(self) -> None:
        """Tell it that nothing more will come."""
        self._talk.close_stdin()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self._end.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def leave(self, within_s: float) -> Completed:
        """Tell it that nothing more will come, and wait for its end: after `within_s` it is made to end."""
        self.close_stdin()
        await asyncio.wait({self._end}, timeout=within_s)
        return await self.end()

    async def end(self) -> Completed:
        """Make it end: SIGTERM, and SIGKILL for one that does not obey (a stopped one cannot)."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self._end.done():
                self.signal(number)
                await asyncio.wait({self._end}, timeout=OBEYS_S)
        return await self.wait()

    async def wait(self) -> Completed:
        """Wait for its end, as several may. What it still wrote to stdout is in the answer."""
        if self._completed is None:
            self._completed = asyncio.ensure_future(self._complete())
        return await asyncio.shield(self._completed)

    async def _complete(self) -> Completed:
        try:
            rest = await pipes.rest_of(self._talk.stdout, self._end)
        except pipes.FloodError:
            self._kill(f"it sent more than {pipes.MOST >> 20} MiB")
            rest = b""
        await self._end
        # An old OpenSSH leaves our stderr open in the shared connection it puts into the background.
        await asyncio.wait({self._drain_stderr}, timeout=pipes.QUIET_S)
        self._talk.close()
        return Completed(self.argv, self._process.returncode, rest.decode("utf-8", "replace"), self.stderr)

    def _kill(self, why: str) -> None:
        """SIGKILL; `why` becomes the last of its words."""
        self.signal(signal.SIGKILL)
        self._last_words = f"\n{why}\n"

    async def _watch_end(self) -> None:
        await pipes.end_of(self._process.pid, lambda: self._process.poll() is not None)
        _running.discard(self._process)

    async def _keep_stderr(self) -> None:
        while chunk := await self._talk.stderr.read(8192):
            self._stderr += chunk
            del self._stderr[:-STDERR_KEPT]


def interrupt(pid: int, within_s: float) -> bool:
    """Ctrl-C for another process of ours; whether it has ended within so many seconds."""
    return _ends(pid, within_s, signal.SIGINT)


def ends(pid: int, within_s: float) -> bool:
    """Whether another process of ours has ended within so many seconds."""
    return _ends(pid, within_s, None)


def _ends(pid: int, within_s: float, number: signal.Signals | None) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, number)
        end = select.poll()
        end.register(process, select.POLLIN)
        return bool(end.poll(within_s * 1000))
    finally:
        os.close(process)


async def spawn(argv: Argv, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Child:
    """Start `argv` with pipes. Raises UsageError when the program does not exist."""
    process = _started(argv, env=env, cwd=cwd)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return Child(argv, process, await pipes.talk(process.stdin, process.stdout, process.stderr, longest=MAX_LINE))


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
    """SIGKILL to `process`, if it still runs, and to what it has started (a jump host's ssh) in its session."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _not_found(argv: Argv, error: FileNotFoundError) -> UsageError:
    if error.filename is not None and error.filename != argv[0]:
        return UsageError(f"no such directory: {error.filename}")
    return ProgramNotFoundError(argv[0])
