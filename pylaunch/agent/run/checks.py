"""Checks of this node before a run, which change nothing: directories, programs, disk space, names, interfaces."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator

from pylaunch import protocol
from pylaunch.agent.run import environment
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.programs import ended, path_of
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_or_none, unreachable
from pylaunch.base.layout import RunDirectory

FIRST_LINE = 512
"""Bytes of a program that are read for its interpreter line."""

ABSENT = 66
LOOK_FOR = f"import importlib.util, sys; sys.exit({ABSENT} if importlib.util.find_spec(sys.argv[1]) is None else 0)"
MOST_TEXT = 300
OWN_NAME_S = 2.0
"""Timeout of looking up the host name of this node."""

LOOK_S = 30.0
"""Timeout of looking for a module, for interpreters on slow file systems."""


def _programs(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Yield the reasons why programs of `task` cannot start or would start the wrong thing."""
    commands = [task.launcher, *(rank.argv for rank in task.ranks)]
    for program in dict.fromkeys(command[0] for command in commands if command and command[0] != protocol.RANK_ENTRY):
        path = os.path.join(task.workdir, program) if "/" in program else program
        if "/" in program and not os.path.exists(path):
            if program not in {need.path for need in task.needs}:
                yield protocol.Reason("path-missing", f"program {path} {absence(path)}", "")
            continue
        found = path_of(path, task.env.get("PATH", os.defpath))
        if found is None:
            is_path = "/" in program
            reason = unexecutable(path) if is_path else f"is not on PATH ({task.env.get('PATH', os.defpath)})"
            hint = "name the script without python: -- train.py" if program.startswith("python") and not is_path else ""
            if not is_path and not hint:
                hint = f"install {program} on the node, or name its path there"
                if program == task.python:
                    hint = "name the interpreter of the environment: --python /opt/conda/envs/NAME/bin/python"
            hint = f"chmod +x {shlex.quote(program)}, or -- bash {shlex.quote(program)}" if is_path else hint
            yield protocol.Reason("not-executable", f"program {path} {reason}", hint)
        elif (why := _without_interpreter(found)) is not None:
            yield protocol.Reason("not-executable", f"program {found} cannot be executed: {why}", "")
    yield from _interpreter(task)
    yield from _framework(task)


def unexecutable(path: str) -> str:
    """Return a verb phrase for a file that cannot be executed: its mode may allow it where its file system does not."""
    is_noexec = os.statvfs(path).f_flag & os.ST_NOEXEC
    return "is on a file system that is mounted with noexec" if is_noexec else "is not executable"


def absence(path: str) -> str:
    """Return a verb phrase for a path that leads nowhere: a link is reported with the target that does not exist."""
    if error := unreachable(path):
        return f"cannot be reached: {error}"
    link = path
    for part in range(1, path.count("/") + 1):
        prefix = "/".join(path.split("/")[: part + 1])
        if os.path.islink(prefix) and not os.path.exists(prefix):
            link = prefix
            break
    if not os.path.islink(link):
        return "does not exist"
    whose = "is a link" if link == path else f"does not exist: {link} is a link"
    return f"{whose} to {os.readlink(link)}, which does not exist"


def _interpreter(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Refuse an interpreter that does not run here (its library, loader or architecture), or lacks the launcher.

    A launcher whose package is missing would fail after the start, before any rank.
    """
    module = task.launcher[2] if task.launcher[1:2] == ["-m"] else ""
    interpreter = task.launcher[0] if module else task.python
    programs = {rank.argv[0] for rank in task.ranks if rank.argv} | set(task.launcher[:1])
    python = path_of(interpreter, task.env.get("PATH", os.defpath))
    if interpreter not in programs or python is None:
        return
    package = module.partition(".")[0]
    words = ["-c", LOOK_FOR, package] if module else ["-I", "-S", "-c", ""]
    cwd = task.workdir if os.path.isdir(task.workdir) else "/"
    try:
        ended = subprocess.run([python, *words], env=task.env, cwd=cwd, timeout=LOOK_S, capture_output=True)
    except subprocess.TimeoutExpired:
        text = f"no end within {LOOK_S:g} s"
    except OSError as error:
        text = str(error.strerror)
    else:
        if ended.returncode == ABSENT and module:
            text = f"{python} has no module {package}, of which {module} is a part"
            hint = f"install {package} for it, or choose another with --python"
            yield protocol.Reason("launcher-missing", text, hint)
        if ended.returncode in (0, ABSENT):
            return
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        text = lines[-1][:MOST_TEXT] if lines else f"status {ended.returncode}"
    hint = "repair it there, or choose another: --python PATH"
    yield protocol.Reason("interpreter-broken", f"{python} does not run on this node: {text}", hint)


def _without_interpreter(path: str) -> str | None:
    """Return why the kernel finds no interpreter for the program at `path`: it reports that no such file exists."""
    try:
        line = rank_files.read(path, FIRST_LINE, follow=True).partition(b"\n")[0]
    except OSError:
        return None
    interpreter = line[2:].decode("utf-8", "surrogateescape").replace("\t", " ").strip(" ").split(" ")[0]
    if not line.startswith(b"#!") or not interpreter.startswith("/") or os.path.exists(interpreter):
        return None
    if interpreter.endswith("\r"):
        return "its lines end as those of Windows do (CR LF)"
    return f"the interpreter in its first line, {interpreter}, {absence(interpreter)}"


def _framework(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Refuse a script of another framework, which `--framework auto` could not read on the controller."""
    if not task.unread_program:
        return
    from pylaunch.agent.shared.scripts import DEFAULT, choose, read_program  # noqa: PLC0415 - ast takes milliseconds

    chosen = "torchrun" if task.launcher else DEFAULT
    found = choose(read_program(task.workdir, task.unread_program))
    if found is not None and found.framework != chosen:
        text = f"{found.path} uses {found.because}: {chosen} does not connect its ranks"
        yield protocol.Reason("framework", text, f"--framework {found.framework}, or --framework {chosen} to insist")


LOG_SPACE = 64 << 20
"""Bytes that must be free in the log directory."""

LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
LOGIND_S = 5.0


def problems(task: protocol.NodeTask, directory: RunDirectory) -> list[protocol.Reason]:
    """Return all reasons why this node cannot run `task`, except busy ports and devices (see `holdings`).

    Programs of a container are looked for where they are (see `spawn.Exec`).
    """
    programs = of_programs(task) if task.container is None else []
    of_node = [*_logs(directory), *_hostname(task), *_logout()]
    return [*programs, *of_node, *environment.interface_problems(task)]


def of_programs(task: protocol.NodeTask) -> list[protocol.Reason]:
    """Return the reasons in the directories and programs which ranks see."""
    programs = [*_programs(task), *_needs(task)]
    if not os.path.isdir(task.workdir):
        programs = [
            each for each in programs if each.code != "path-missing" or f" {task.workdir}/" not in f" {each.message}"
        ]
    return [*_workdir(task), *programs]


def _workdir(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    if not os.path.isdir(task.workdir):
        found = "is not a directory" if os.path.exists(task.workdir) else absence(task.workdir)
        hint = "take the code along with --sync ., or choose a directory that every node has: --workdir DIR"
        if unreachable(task.workdir):
            hint = f"on the node: ls -ld {shlex.quote(task.workdir)}; a stale file handle needs a new mount"
        yield protocol.Reason("workdir-missing", f"working directory {task.workdir} {found}", hint)
    elif not os.access(task.workdir, os.R_OK | os.X_OK):
        yield protocol.Reason("workdir-closed", f"working directory {task.workdir} may not be entered", "")


def _needs(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    for need in task.needs:
        path = os.path.join(task.workdir, need.path)
        if not os.path.exists(path):
            yield protocol.Reason("path-missing", f"{path} {absence(path)}", need.hint)


def _logs(directory: RunDirectory) -> Iterator[protocol.Reason]:
    probe = directory.stream(".probe")
    try:
        os.makedirs(directory.logs, mode=0o700, exist_ok=True)
        rank_files.replace(probe, b"0" * 4096)
        os.unlink(probe)
        status = os.statvfs(directory.logs)
    except OSError as error:
        code = "disk-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "logs-not-writable"
        shown = "quota -s" if error.errno == errno.EDQUOT else f"df -h {shlex.quote(directory.path)}"
        yield protocol.Reason(code, f"log directory {directory.logs}: {error.strerror}", shown)
        return
    free = status.f_bavail * status.f_frsize
    if free < LOG_SPACE:
        text = f"disk full: {free / (1 << 20):.1f} MiB free in {directory.logs}, {LOG_SPACE >> 20} MiB wanted for logs"
        yield protocol.Reason("disk-full", text, f"df -h {shlex.quote(directory.path)}")


def _hostname(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Refuse a host name on loopback, where gloo would listen and no other machine reach it.

    Only torch's gloo obeys GLOO_SOCKET_IFNAME.
    """
    has_interface = task.gloo == "torch" and "GLOO_SOCKET_IFNAME" in task.env
    if not task.gloo or has_interface or task.machines == 1 or task.world_size <= len(task.ranks):
        return
    loopback = sorted(address for address in _own_addresses() if address.startswith("127."))
    if loopback:
        text = f"its own host name resolves to {loopback[0]}, where no other node can reach it"
        hint = "pylaunch provision --roles host_baseline"
        try:
            interfaces.interface_to([address for host, address in task.peers.items() if host != task.host])
        except interfaces.UndecidedError as error:
            text = f"{error}, so that the interface of the ranks is not known; and {text}"
            hint = "an address that all nodes reach: fabric_address= or ansible_host= in an inventory (pylaunch init)"
        yield protocol.Reason("hostname-loopback", text, hint)


def _own_addresses() -> list[str]:
    """Return the IPv4 addresses of this node's host name; none if no name server answers within OWN_NAME_S, or if this
    user may have no further thread."""
    found: list[str] = []

    def look_up() -> None:
        with contextlib.suppress(OSError, UnicodeError):  # UnicodeError: the name is no domain name.
            found.extend(str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET))

    lookup = threading.Thread(target=look_up, daemon=True)
    with contextlib.suppress(RuntimeError):
        lookup.start()
        lookup.join(OWN_NAME_S)
    return [*dict.fromkeys(found)]


def _logout() -> Iterator[protocol.Reason]:
    """Refuse a node where logind ends this agent and its ranks with the SSH session of the start."""
    if "/session-" not in (text_or_none("/proc/self/cgroup") or ""):
        return
    words = ["busctl", "--system", "get-property", *LOGIND, "KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers"]
    try:
        answer = ended(words, deadline_s=LOGIND_S).output
        user = pwd.getpwuid(os.getuid()).pw_name
    except (OSError, KeyError):  # There is no busctl, no logind that answers, or no name of this user.
        return
    if kills(answer, user):
        text = "logind ends what a user leaves running at logout (KillUserProcesses=yes), and the run with it"
        hint = (
            f"as root: {user} in KillExcludeUsers= of /etc/systemd/logind.conf, then systemctl restart systemd-logind"
        )
        yield protocol.Reason("ended-at-logout", text, hint)


def kills(properties: str, user: str) -> bool:
    """Return True if logind ends the processes of `user`, with its `properties` as busctl prints them, one a line."""
    lines = [shlex.split(line) for line in properties.splitlines()]
    if len(lines) != 3 or lines[0] != ["b", "true"]:
        return False
    only, excluded = lines[1][2:], lines[2][2:]
    return user not in excluded and (not only or user in only)
