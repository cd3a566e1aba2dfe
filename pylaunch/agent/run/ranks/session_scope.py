"""Systemd scope of a supervisor, on nodes where logind kills a session's processes at logout (KillUserProcesses=yes).

There, the end of the SSH session would kill the supervisor and its ranks. The supervisor therefore moves to a scope of
its own: of the system for root, of the user's systemd for others, which outlives the session only with lingering.
"""

from __future__ import annotations

import os
import pwd
import time

from pylaunch.agent.shared.programs import ended, path_of

ANSWER_S = 5.0
MOVED_S = 2.0
POLL_S = 0.01
LINGER = "/var/lib/systemd/linger"

_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


def leave_session(run: str) -> str | None:
    """Move this process to a scope that survives logout, where that is needed. Return a warning if that fails."""
    busctl = path_of("busctl", "/usr/bin:/bin")
    if busctl is None or not is_session(_cgroups()):
        return None
    if _call([busctl, "--system", "get-property", *_LOGIND, "KillUserProcesses"]).strip() != "b true":
        return None
    uid = os.getuid()
    if uid != 0 and (cure := _missing(uid)):
        return (
            "logind ends what a user leaves running at logout (KillUserProcesses=yes), so the run ends with the "
            f"connection; as root: {cure}"
        )
    which = ["--system"] if uid == 0 else ["--user"]
    _call([busctl, *which, "call", *_SYSTEMD, "StartTransientUnit", *unit_words(run, os.getpid())])
    until = time.monotonic() + MOVED_S
    while is_session(_cgroups()):
        if time.monotonic() > until:
            return "logind ends what is left running at logout (KillUserProcesses=yes), and systemd gave no scope"
        time.sleep(POLL_S)
    return None


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


def _missing(uid: int) -> str:
    """Return the command that makes the user's systemd linger or reachable, to be run as root; "" if none is needed."""
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
    try:
        environment = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
        return ended(words, deadline_s=ANSWER_S, environment=environment).output
    except OSError:
        return ""
