"""Container of one run on this node: the file system of an image, which each rank joins before its exec.

An engine of the node (`container_engines`) runs a shell of the image that waits: the holder. It is started while the
node prepares, so a container that cannot be made refuses the run. Ranks stay children of the agent: their process ids,
signals, exit statuses, marks, limits and cgroups are those of ranks without a container. The holder ends when the agent
ends, which closes its input; the engine then removes the container.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import select
import signal
import subprocess
import time

from pylaunch import protocol
from pylaunch.agent.run import lifecycle
from pylaunch.agent.run.environment import RefusedError
from pylaunch.agent.shared import container_engines, processes, rank_files
from pylaunch.base.layout import NodeRoot, RunDirectory
from pylaunch.protocol.node_task import MountTask

NAMESPACES = (("user", 0x10000000), ("mnt", 0x00020000))
"""Names and CLONE_ numbers, in the order in which a process joins them: the first gives the right to the second."""

START_S = 60.0
"""Time for the holder to be ready; a file of an image may be on a slow file system."""

END_S = 5.0
"""Time for the processes of the engine to end."""

BY_SIGNAL = 128
"""Exit codes from here on show that a signal ended a program."""

MOST_TEXT = 300
MOST_DIGITS = 7
"""Of a process id: the kernel's limit is 4,194,304."""

MOST_OUTPUT = 1 << 16
"""Bytes of a holder, whose program is one of an image: whatever it prints."""

CHUNK = 1 << 20
MAX_SIZE = 1000

READY = b"pylaunch-holder "
HOLD = ["/bin/sh", "-c", f"read -r pid rest </proc/self/stat; echo {READY.decode()}$pid; read -r end"]
"""Program of the holder: its process id as the node has it, then nothing until its input ends. All are built-ins."""

OF_THE_HOLDER = ("PWD", "OLDPWD", "SHLVL", "_", "TERM", "HOSTNAME", "HOME", processes.RUN_MARK, processes.ROOT_MARK)
"""Variables of the holder that are not those of the image."""

USER_SITE = {"PYTHONNOUSERSITE": "1"}
"""Packages in the home directory are those of the node's Python, not of the image's."""

_libc = ctypes.CDLL(None, use_errno=True)


def _refusal(text: str, hint: str = "") -> RefusedError:
    return RefusedError(protocol.Reason("container", text, hint))


class JoinableContainer:
    """File system of the ranks of one run. `digest` identifies the image, `env` has the variables that it sets."""

    def __init__(self, holder: subprocess.Popen[bytes], digest: str, directory: RunDirectory) -> None:
        self.digest = digest
        self.env: dict[str, str] = {}
        self.processes: set[int] = set()
        """Process ids of the engine and the shell."""

        self._holder = holder
        self._directory = directory
        self._namespaces: list[tuple[int, int]] = []
        """Descriptors of the namespaces that differ from those of this process, with their numbers."""

    def keep(self, pid: int) -> None:
        """Keep the namespaces and the variables of `pid`, the shell. Raises OSError."""
        for name, number in NAMESPACES:
            path = f"/proc/{pid}/ns/{name}"
            if os.readlink(path) != os.readlink(f"/proc/self/ns/{name}"):
                self._namespaces.append((os.open(path, os.O_RDONLY | os.O_CLOEXEC), number))
        if not self._namespaces:
            raise OSError("the engine has no process in the container")
        with open(f"/proc/{pid}/environ", "rb") as source:
            pairs = [os.fsdecode(each).partition("=") for each in source.read().split(b"\0") if each]
        self.env = {**USER_SITE, **{name: value for name, _, value in pairs if name not in OF_THE_HOLDER}}
        family = processes.descendants(processes.mine(), [os.getpid()])
        self.processes = {*family, pid, self._holder.pid}

    def join(self) -> None:
        """Give this process, which has one thread, the file system of the container. Raises OSError."""
        for descriptor, number in self._namespaces:
            if _libc.setns(descriptor, number) != 0:
                code = ctypes.get_errno()
                raise OSError(code, f"a rank cannot join the container: {os.strerror(code)}")

    def end(self) -> list[str]:
        """End the holder and remove the container; return why it is left, [] if it is not there.

        An engine that does not end is killed; processes that it has left carry the mark of the run.
        """
        for descriptor, _ in self._namespaces:
            os.close(descriptor)
        self._namespaces = []
        for stream in (self._holder.stdin, self._holder.stdout):
            assert stream is not None
            stream.close()
        until = time.monotonic() + END_S
        has_ended = False
        try:
            # A docker client that a signal ended exits with 128 plus its number, and the daemon completes its request.
            has_ended = 0 <= self._holder.wait(END_S) < BY_SIGNAL
        except subprocess.TimeoutExpired:
            os.killpg(self._holder.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # A file system that does not answer keeps it.
                self._holder.wait(lifecycle.KILL_S)
        # Programs that left the engine, such as conmon, are children of this process, and remove the container.
        while time.monotonic() < until and self._lives():
            time.sleep(processes.POLL_S)
        # They may have left that to a process of their own, which takes long on a busy node.
        return container_engines.remove_container(self._directory, has_ended=has_ended)

    def _lives(self) -> bool:
        return any(each.pid in self.processes and each.state != "Z" for each in processes.mine())


def start_container(task: protocol.NodeTask, root: NodeRoot) -> JoinableContainer:
    """Start the holder for the container of `task`. Raises RefusedError, which names what is left then."""
    assert task.container is not None
    name, directory = task.container.image, root.run(task.run)
    engine = container_engines.engine_of(name)
    if engine is None:
        wanted = " or ".join(container_engines.engines_for(name))
        raise _refusal(f"{wanted} not found, which runs image {name}", "pylaunch help containers")
    try:
        digest = _digest(engine, name, root)
        env = {processes.RUN_MARK: task.run, processes.ROOT_MARK: root.path}
        words = container_engines.command(engine, name, _mounts(task, root), env, HOLD)
        holder = subprocess.Popen(
            container_engines.noted(directory, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**os.environ, **env}, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise _refusal(f"image {name}: {error.strerror or error}", "pylaunch help containers") from None
    container = JoinableContainer(holder, digest, directory)
    try:
        assert holder.stdout is not None
        output = _ready(holder.stdout.fileno())
        pid = output.partition(READY)[2].split(b"\n")[0]
        if not pid.isdigit() or len(pid) > MOST_DIGITS or processes.run_of(int(pid), root.path) != task.run:
            lines = "; ".join(output.decode("utf-8", "replace").strip().splitlines()[-2:])
            raise OSError(f"{engine} made no container: {lines[:MOST_TEXT] or 'no output'}")
        container.keep(int(pid))
        if _digest(engine, name, root) != digest:
            raise OSError("it changed while it was opened")
    except OSError as error:
        left = container.end()
        raise _refusal("; ".join([f"image {name}: {error.strerror or error}", *left])) from None
    return container


def _digest(engine: str, name: str, root: NodeRoot) -> str:
    return _file_digest(name, root) if name.startswith("/") else container_engines.image_id(engine, name)


def _file_digest(image: str, root: NodeRoot) -> str:
    """Return the hash of the file `image`, remembered until it changes; of a directory, only that it is one."""
    status = os.stat(image)
    if os.path.isdir(image):
        return "a directory"
    state = f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
    name = hashlib.sha256(os.fsencode(os.path.realpath(image))).hexdigest()
    memory = os.path.join(root.path, "images", name)
    try:
        known, _, remembered = rank_files.read(memory, MAX_SIZE).decode("ascii", "replace").rpartition(" ")
    except OSError:
        known = remembered = ""
    if known == state:
        return remembered
    hashed = hashlib.sha256()
    with open(rank_files.open_regular(image, follow=True), "rb") as source:
        for chunk in iter(lambda: source.read(CHUNK), b""):
            hashed.update(chunk)
    found = f"sha256:{hashed.hexdigest()}"
    os.makedirs(os.path.dirname(memory), exist_ok=True)
    rank_files.replace(memory, f"{state} {found}".encode())
    return found


def _mounts(task: protocol.NodeTask, root: NodeRoot) -> list[MountTask]:
    """Return what the ranks of `task` see of their node besides devices: directories of the run, then the mounts."""
    assert task.container is not None
    home = task.env.get("HOME", "")
    places = [root.path, *([task.workdir] if task.workdir != "/" else []), *([home] if os.getuid() else [])]
    found = [MountTask(path, path) for path in places if os.path.isdir(path)]
    for mount in task.container.mounts:
        if not os.path.exists(mount.source):
            option = f"--container-mount {mount.source}:{mount.target}"
            raise _refusal(f"{option}: {mount.source} does not exist")
        if f"{mount.target}/".startswith(f"{root.path}/"):
            raise _refusal(f"--container-mount: {root.path} is the directory of pylaunch")
    return [*found, *task.container.mounts]


def _ready(reading: int) -> bytes:
    """Return the output of a holder until it is ready, or to its end. Raises OSError for too much, or too late."""
    output = b""
    until = time.monotonic() + START_S
    while b"\n" not in output.partition(READY)[2]:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            raise OSError(f"no answer within {START_S:g} s")
        chunk = os.read(reading, MOST_OUTPUT)
        output += chunk
        if len(output) > MOST_OUTPUT:
            raise OSError(f"a program of the image prints more than {MOST_OUTPUT >> 10} KiB")
        if not chunk:
            break
    return output
