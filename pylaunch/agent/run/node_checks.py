"""Checks of this node before a run, which change nothing: directories, programs, disk space, network names."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import socket
from collections.abc import Iterator

from pylaunch import protocol
from pylaunch.agent.run import program_checks
from pylaunch.agent.run.ranks import rank_interface
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.programs import ended
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_or_none, unreachable
from pylaunch.base.layout import RunDirectory

LOG_SPACE = 64 << 20
"""Bytes that must be free in the log directory."""

LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
LOGIND_S = 5.0


def problems(task: protocol.NodeTask, directory: RunDirectory) -> list[protocol.Reason]:
    """Return all reasons why this node cannot run `task`, except busy ports and devices (see `holdings`)."""
    return [*of_programs(task), *of_node(task, directory)]


def of_node(task: protocol.NodeTask, directory: RunDirectory) -> list[protocol.Reason]:
    """Return the reasons that do not depend on the root directory of the ranks."""
    return [*_logs(directory), *_hostname(task), *_loopback(task), *_logout(), *rank_interface.problems(task)]


def of_programs(task: protocol.NodeTask) -> list[protocol.Reason]:
    """Return the reasons in the directories and programs which ranks see; in a container, those of its image."""
    programs = [*program_checks.problems(task), *_needs(task)]
    if not os.path.isdir(task.workdir):
        programs = [
            each for each in programs if each.code != "path-missing" or f" {task.workdir}/" not in f" {each.message}"
        ]
    return [*_workdir(task), *programs]


def _workdir(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    if not os.path.isdir(task.workdir):
        found = "is not a directory" if os.path.exists(task.workdir) else program_checks.absence(task.workdir)
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
            hint = program_checks.of_the_image(task, need.path) or need.hint
            yield protocol.Reason("path-missing", f"{path} {program_checks.absence(path)}", hint)


def _logs(directory: RunDirectory) -> Iterator[protocol.Reason]:
    probe = directory.stream(".probe")
    try:
        os.makedirs(directory.logs, mode=0o700, exist_ok=True)
        rank_files.replace(probe, b"0" * 4096)
        os.unlink(probe)
        status = os.statvfs(directory.logs)
    except OSError as error:
        code = "disk-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "logs-not-writable"
        shown = "quota -s" if error.errno == errno.EDQUOT else f"df -h {directory.path}"
        yield protocol.Reason(code, f"log directory {directory.logs}: {error.strerror}", shown)
        return
    free = status.f_bavail * status.f_frsize
    if free < LOG_SPACE:
        text = f"disk full: {free / (1 << 20):.1f} MiB free in {directory.logs}, {LOG_SPACE >> 20} MiB wanted for logs"
        yield protocol.Reason("disk-full", text, f"df -h {directory.path}")


def _hostname(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Refuse a host name on loopback, where gloo would listen and no other machine reach it.

    Only torch's gloo obeys GLOO_SOCKET_IFNAME.
    """
    has_interface = task.gloo == "torch" and "GLOO_SOCKET_IFNAME" in task.env
    if not task.gloo or has_interface or task.machines == 1 or task.world_size <= len(task.ranks):
        return
    name = socket.gethostname()
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET)}
    except (OSError, UnicodeError):  # UnicodeError: the name is no domain name.
        return
    loopback = sorted(address for address in addresses if address.startswith("127."))
    if loopback:
        text = f"its own host name resolves to {loopback[0]}, where no other node can reach it"
        hint = "pylaunch provision --roles host_baseline"
        try:
            interfaces.interface_to([address for host, address in task.peers.items() if host != task.host])
        except interfaces.UndecidedError as error:
            text = f"{error}, so that the interface of the ranks is not known; and {text}"
            hint = "an address that all nodes reach: fabric_address= or ansible_host= in an inventory (pylaunch init)"
        yield protocol.Reason("hostname-loopback", text, hint)


def _loopback(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Refuse loopback interfaces of a node that was provisioned as the only one, until it is provisioned again."""
    chosen = [name for name in rank_interface.INTERFACES if task.env.get(name, "").lstrip("=") == "lo"]
    if task.machines > 1 and chosen:
        text = f"{', '.join(chosen)} is lo here, over which none of the other machines can be reached"
        yield protocol.Reason("loopback-interface", text, "pylaunch provision --roles nccl_env")


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
