"""Container of one run on this node: namespaces that a holder keeps, and that each rank joins before its exec.

The holder is bubblewrap with a shell of the image that waits. It is started while the node prepares, so a container
that cannot be made refuses the run. Ranks stay children of the agent: their process ids, signals, exit statuses and
marks are those of ranks without a container. The mounts exist in the namespaces alone, and end with their processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shlex
import signal
import tempfile
import time
from typing import Any, Callable

from pylaunch import protocol
from pylaunch.agent.containers import image, mounts
from pylaunch.agent.containers.mounts import ContainerMount
from pylaunch.agent.run import program_checks
from pylaunch.agent.run.ranks import spawn
from pylaunch.agent.shared import processes
from pylaunch.agent.shared.programs import ENGINE, OPENER, path_of
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import NodeRoot, RunDirectory

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
NAMESPACES = (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS))
"""In the order in which a process joins them: the first gives it the right to join the second."""

MEMORY = "/dev/shm"
"""File system in memory, for arguments. Not every Python has memfd_create."""

START_S = 30.0
"""Time for the holder to be ready; a file of an image may be on a slow file system."""

ASK_S = program_checks.LOOK_S + 5.0
"""Time for an examination, in which a program of the image that never ends is named first."""

POLL_S = 0.01
MOST_TEXT = 300
MOST_OUTPUT = 1 << 16
"""Bytes of the programs of a holder, and of an examination, which are those of an image: whatever it prints."""

READY = b"ready\n"
HOLD = ["/bin/sh", "-c", f"echo {READY.decode().strip()}; read -r end"]
"""Program of the holder in the image: one line, then nothing until it is ended."""

PACKAGES = {ENGINE: "bubblewrap", OPENER: "squashfuse"}
"""Package of each program."""

NO_NAMESPACES = ("new namespace", "uid map")
"""Words of bubblewrap, and of `_own_mounts`, where the node refuses the namespaces, whatever the image is."""

_libc = ctypes.CDLL(None, use_errno=True)


class ContainerError(Exception):
    """This node cannot run the ranks in their container."""

    def __init__(self, reason: protocol.Reason) -> None:
        super().__init__(reason.message)
        self.reason = reason


class JoinableContainer:
    """Namespaces of the ranks of one run. `digest` identifies the image."""

    def __init__(self, digest: str, holder: int, held: int, mount_point: str) -> None:
        self.digest = digest
        self._holder = holder
        self._held = held
        """Pipe whose end the shell of the holder waits for."""

        self._mount_point = mount_point
        self._namespaces: list[tuple[int, int]] = []
        """Descriptors of the namespaces that differ from those of this process, with their kinds."""

    def keep_namespaces_of(self, pid: int) -> None:
        """Keep the namespaces of `pid`, a process of the container. Raises OSError."""
        for name, kind in NAMESPACES:
            path = f"/proc/{pid}/ns/{name}"
            if os.readlink(path) != os.readlink(f"/proc/self/ns/{name}"):
                self._namespaces.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), kind))
        if not self._namespaces or processes.read(pid).parent != self._holder:
            raise OSError(f"{ENGINE} has no process in the container")

    def join(self) -> None:
        """Make this process, which has one thread, a process of the container. Raises OSError."""
        for descriptor, kind in self._namespaces:
            _call("setns", descriptor, kind)

    def inside(self, ask: Callable[[], Any]) -> Any:
        """Return what `ask` returns in a process of the container: a value of JSON.

        Programs that `ask` has started end with it. Raises ContainerError; OSError or ValueError where this node has no
        process for it, or ends that process.
        """
        # The standard library of this interpreter need not be in the image.
        import ast  # noqa: F401, PLC0415
        import subprocess  # noqa: F401, PLC0415

        (reading, writing), pid = _forked_with(1)
        if pid == 0:
            answer: dict[str, Any] = {"error": "no answer"}
            try:
                spawn.signal_me_when_parent_dies(signal.SIGKILL)
                os.setsid()
                self.join()
                os.chdir("/")
                answer = {"value": ask()}
            except (OSError, ImportError) as error:
                answer = {"error": str(error)}
            finally:
                try:
                    with os.fdopen(writing, "w") as answered:
                        json.dump(answer, answered)
                finally:
                    os._exit(0)
        os.close(writing)
        try:
            text = _read_until(reading, lambda text: False, ASK_S)
        except OSError as error:
            text = json.dumps({"error": str(error)}).encode()
        finally:
            os.close(reading)
            with contextlib.suppress(ProcessLookupError):  # It has no session yet, and so has started nothing.
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        found = json.loads(text) if text else {"error": "no answer"}
        if "error" in found:
            reason = f"the container cannot be examined: {found['error'][:MOST_TEXT]}"
            raise ContainerError(protocol.Reason("container", reason))
        return found["value"]

    def end(self) -> None:
        """End the holder; the mounts end with the last process of the container."""
        with contextlib.suppress(ChildProcessError):
            # One that has ended and was waited for is no child, and its process id may be that of another process.
            if os.waitpid(self._holder, os.WNOHANG) == (0, 0):
                os.kill(self._holder, signal.SIGKILL)
                os.waitpid(self._holder, 0)
        for descriptor in (self._held, *(descriptor for descriptor, _ in self._namespaces)):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.rmdir(self._mount_point)


@dataclass(frozen=True)
class ContainerHolder:
    """Programs of the node, image and mounts of a holder."""

    engine: str
    opener: str
    """Program that mounts a file; "" for a directory."""

    image: str
    offset: int
    """Place of the squashfs in a file."""

    mount_point: str
    places: list[ContainerMount]
    env: dict[str, str]


def start_container(task: protocol.NodeTask, root: NodeRoot, directory: RunDirectory) -> JoinableContainer:
    """Start the holder for the container of `task`. Raises ContainerError or OSError; nothing is left then."""
    assert task.container is not None
    path = task.container.image
    try:
        engine, opener = _programs(is_file=image.squashfs_offset(path) is not None)
        places = mounts.places(task, root)
        digest = image.digest(path, root)
        offset = image.squashfs_offset(path)  # Of the file with this digest: it could be another one before.
    except image.ImageError as error:
        raise ContainerError(protocol.Reason("container-image", str(error), error.hint)) from None
    except mounts.MountError as error:
        raise ContainerError(protocol.Reason("container-mount", str(error))) from None
    env = {processes.RUN_MARK: task.run, processes.ROOT_MARK: root.path, "PATH": os.environ.get("PATH", os.defpath)}
    holder = ContainerHolder(engine, opener, path, offset or 0, directory.file("image"), places, env)
    if opener:
        os.makedirs(holder.mount_point, exist_ok=True)
    container = _start_holder(holder, digest)
    if opener and not image.is_still(path, root, digest):
        container.end()
        raise ContainerError(protocol.Reason("container-image", f"image {path} changed while it was mounted"))
    return container


def _programs(*, is_file: bool) -> tuple[str, str]:
    """Return the paths of the programs of the holder. Raises ContainerError."""
    wanted = [ENGINE, OPENER] if is_file else [ENGINE]
    found = {name: path_of(name) or "" for name in wanted}
    lacking = [name for name, path in found.items() if not path]
    if lacking:
        text = f"{' and '.join(lacking)} not found, which a container needs"
        hint = f"on that host, as root: apt install {' '.join(PACKAGES[name] for name in lacking)}"
        raise ContainerError(protocol.Reason("container-engine", text, hint))
    return found[ENGINE], found.get(OPENER, "")


def _start_holder(holder: ContainerHolder, digest: str) -> JoinableContainer:
    """Start `holder`, and return the container when it is there. Raises ContainerError or OSError."""
    try:
        (reading, writing, info, informing, stdin, held), pid = _forked_with(3)
    except OSError:
        with contextlib.suppress(OSError):
            os.rmdir(holder.mount_point)
        raise
    if pid == 0:
        _become(holder, stdin, writing, informing)
    for descriptor in (writing, stdin, informing):
        os.close(descriptor)
    container = JoinableContainer(digest, pid, held, holder.mount_point)
    try:
        _read_until(reading, lambda output: output.endswith(READY), START_S, fail_at_end=True)
        container.keep_namespaces_of(_process_of(os.read(info, MOST_OUTPUT)))
    except OSError as error:
        container.end()
        raise ContainerError(_refusal(holder.image, str(error))) from None
    finally:
        os.close(reading)
        os.close(info)
    return container


def _forked_with(pipes: int) -> tuple[list[int], int]:
    """Return the ends of as many pipes, and the result of a fork. Raises OSError; no descriptor is left then."""
    ends: list[int] = []
    try:
        for _ in range(pipes):
            ends += os.pipe()
        return ends, os.fork()
    except OSError:
        for descriptor in ends:
            os.close(descriptor)
        raise


def _refusal(path: str, text: str) -> protocol.Reason:
    """Return the reason for a holder that ended with `text`."""
    if any(words in text for words in NO_NAMESPACES):
        # The shell of the image may have printed these words: the check does not start it.
        hint = f"whether the host refuses namespaces: pylaunch check --only containers --container {shlex.quote(path)}"
        return protocol.Reason("container-engine", f"no namespaces for a container: {text[:MOST_TEXT]}", hint)
    hint = f"the image needs a shell at {HOLD[0]}, and what it loads" if HOLD[0] in text else ""
    return protocol.Reason("container", f"image {path}: {text[:MOST_TEXT]}", hint)


def _become(holder: ContainerHolder, stdin: int, stdout: int, info: int) -> None:
    """Replace this process by bubblewrap. Its output, errors included, goes to `stdout`, its own words to `info`."""
    try:
        spawn.signal_me_when_parent_dies(signal.SIGKILL)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number, stream in enumerate((stdin, stdout, stdout)):
            os.dup2(stream, number)
        root, identity = holder.image, []
        if holder.opener:
            identity = _own_mounts()
            _mount_file(holder)
            root = holder.mount_point
        os.set_inheritable(info, True)
        arguments = [
            "--die-with-parent",
            "--info-fd",
            str(info),
            *identity,
            *mounts.words(root, holder.places),
            "--chdir",
            "/",
        ]
        with tempfile.TemporaryFile(dir=MEMORY) as file:
            file.write(b"".join(os.fsencode(word) + b"\0" for word in arguments))
            file.seek(0)
            os.set_inheritable(file.fileno(), True)
            os.execve(holder.engine, [holder.engine, "--args", str(file.fileno()), "--", *HOLD], holder.env)
    except (OSError, mounts.MountError) as error:
        os.write(2, f"{error}\n".encode("utf-8", "surrogateescape"))
    finally:
        os._exit(1)


def _own_mounts() -> list[str]:
    """Give this process mounts of its own, and return the arguments with which bubblewrap keeps the user."""
    uid, gid = os.getuid(), os.getgid()
    try:
        _call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if uid else 0))
        if uid:
            for name, content in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                target = os.open(f"/proc/self/{name}", os.O_WRONLY)
                os.write(target, content.encode())
                os.close(target)
        if _libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) != 0:
            raise OSError(ctypes.get_errno(), "the mounts of the container cannot be separated")
    except OSError as error:
        raise OSError(error.errno, f"{NO_NAMESPACES[0]}: {error.strerror}") from None
    return ["--unshare-user", "--uid", str(uid), "--gid", str(gid)] if uid else []


def _mount_file(holder: ContainerHolder) -> None:
    """Mount the file of `holder`, by a process that ends with this one. Raises OSError."""
    before = os.stat(holder.mount_point).st_dev
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        spawn.signal_me_when_parent_dies(signal.SIGKILL)
        if os.getppid() == parent:
            words = [holder.opener, "-f", "-o", f"ro,offset={holder.offset}", holder.image, holder.mount_point]
            with contextlib.suppress(OSError):
                os.execve(holder.opener, words, holder.env)
        os._exit(1)
    while os.stat(holder.mount_point).st_dev == before:
        ended, _ = os.waitpid(pid, os.WNOHANG)
        if ended:
            raise OSError(f"{OPENER} cannot mount it")
        time.sleep(POLL_S)


def _read_until(
    reading: int, is_complete: Callable[[bytes], bool], within_s: float, *, fail_at_end: bool = False
) -> bytes:
    """Return the output of a process of the container up to its end. Raises OSError for too much, or too late."""
    output = b""
    until = time.monotonic() + within_s
    while not is_complete(output):
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise OSError(f"no answer within {within_s:g} s")
        chunk = os.read(reading, MOST_OUTPUT)
        output += chunk
        if len(output) > MOST_OUTPUT:
            raise OSError(f"a program of the image prints more than {MOST_OUTPUT >> 10} KiB")
        if not chunk and not fail_at_end:
            break
        if not chunk:
            raise OSError("; ".join(output.decode("utf-8", "replace").strip().splitlines()[-2:]) or "no output")
    return output


def _process_of(info: bytes) -> int:
    """Return the process id of the shell, as bubblewrap reports it: an image can print any. Raises OSError."""
    try:
        pid = untrusted_json.parse_object(info, MOST_OUTPUT).get("child-pid")
    except ValueError:
        pid = None
    if not isinstance(pid, int):
        raise OSError(f"{ENGINE} names no process of the container")
    return pid


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
