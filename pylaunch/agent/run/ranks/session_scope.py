"""Systemd scope of a supervisor, on nodes where logind kills a session's processes at logout (KillUserProcesses=yes).

There, the end of the SSH session would kill the supervisor and its ranks. The supervisor therefore moves to a scope of
its own: of the system for root, of the user's systemd for others, which outlives the session only with lingering.
"""

from __future__ import annotations

import os
import pwd
import shlex
import time

from pylaunch.agent.shared.programs import ended, path_of

ANSWER_S = 5.0
MOVED_S = 2.0
POLL_S = 0.01
LINGER = "/var/lib/systemd/linger"
LOGOUT = "logind ends what a user leaves running at logout (KillUserProcesses=yes)"

_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def leave_session(run: str) -> str | None:
    """Move this process to a scope that survives logout, where that is needed. Return a warning if that fails."""
    if not is_ended_at_logout():
        return None
    if cure := missing():
        return f"{LOGOUT}, so the run ends with the connection; as root: {cure}"
    which = ["--user"] if os.getuid() else ["--system"]
    _call([*which, "call", *_SYSTEMD, "StartTransientUnit", *unit_words(run, os.getpid())])
    until = time.monotonic() + MOVED_S
    while is_session(_cgroups()):
        if time.monotonic() > until:
            return f"{LOGOUT}, and systemd gave no scope"
        time.sleep(POLL_S)
    return None


def is_ended_at_logout() -> bool:
    """Return True if logind ends the processes of this login session with it."""
    names = ["KillUserProcesses", "KillOnlyUsers", "KillExcludeUsers"]
    return is_session(_cgroups()) and kills(_call(["--system", "get-property", *_LOGIND, *names]), _name(os.getuid()))


def kills(properties: str, user: str) -> bool:
    """Return True if logind ends the processes of `user`, with its `properties` as busctl prints them, one a line."""
    lines = [shlex.split(line) for line in properties.splitlines()]
    if len(lines) != 3 or lines[0] != ["b", "true"]:
        return False
    only, excluded = lines[1][2:], lines[2][2:]
    return user not in excluded and (not only or user in only)


def unit_words(run: str, pid: int) -> list[str]:
    """Return the arguments of StartTransientUnit for busctl: a scope that contains `pid`."""
    properties = ["2", "PIDs", "au", "1", str(pid), "Description", "s", f"pylaunch run {run}"]
    return ["ssa(sv)a(sa(sv))", f"pylaunch-{run}-{pid}.scope", "fail", *properties, "0"]


def is_session(cgroups: str) -> bool:
    """Return whether `cgroups`, the content of /proc/self/cgroup, is that of a login session."""
    last = [line.rpartition("/")[2] for line in cgroups.splitlines()]
    return any(name.startswith("session-") and name.endswith(".scope") for name in last)


def _cgroups() -> str:
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as source:
        return source.read()


def missing() -> str:
    """Return the command, for root, that makes the systemd of this user linger or reachable; "" if none is needed."""
    uid = os.getuid()
    if uid == 0:
        return ""
    if not os.path.exists(os.path.join(LINGER, _name(uid))):
        return f"loginctl enable-linger {_name(uid)}"
    if not os.path.exists(f"/run/user/{uid}/bus"):
        return f"install the package dbus-user-session, then systemctl restart user@{uid}"
    return ""


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _call(words: list[str]) -> str:
    """Return the output of busctl; "" if it fails."""
    busctl = path_of("busctl", "/usr/bin:/bin")
    if busctl is None:
        return ""
    try:
        environment = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
        return ended([busctl, *words], deadline_s=ANSWER_S, environment=environment).output
    except OSError:
        return ""
