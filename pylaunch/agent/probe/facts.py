"""What a host looks like, asked of the host itself: answers to exactly the questions it is given, as one JSON line.

Piped to `python3 -I -` with the few modules it imports, so all of them need the standard library alone, and any
Python >= 3.8.
An answer stands in the place of its question. It is null where the thing does not exist, and
{"unreadable": reason} where it could not be looked at: that is never taken for "as it should be".
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import re
import resource
import subprocess
from functools import partial
from typing import Any, Callable

from pylaunch.agent.shared.installed import MARKER, installed_digest
from pylaunch.agent.shared.text import text_of

DEADLINE_S = 20


def answer(
    questions: dict[str, list[Any]],
    also: dict[str, Callable[[Any], Any]] | None = None,
    sudo_password: str | None = None,
) -> dict[str, Any]:
    """The facts that `questions` ask for, and who and what the host is. `also`: readers of further subjects.

    `sudo_password` is for those answers that root alone can give.
    """
    one: dict[str, Callable[[Any], Any]] = {
        **ONE,
        "reports": partial(report_fact, sudo_password=sudo_password),
        **(also or {}),
    }
    many: dict[str, Callable[[list[Any]], list[Any]]] = {
        **MANY,
        "sshd": partial(sshd_facts, sudo_password=sudo_password),
    }
    facts: dict[str, Any] = {
        "hostname": os.uname().nodename,
        "capabilities": bounding_capabilities(),
        "distribution": distribution(),
    }
    for subject, asked in questions.items():
        if subject in many:
            facts[subject] = many[subject](asked) if asked else []
        else:
            facts[subject] = [tried(one[subject], each) for each in asked]
    return facts


def tried(look: Callable[[Any], Any], question: Any) -> Any:
    """`look(question)`, with the ways in which looking fails turned into answers."""
    try:
        return look(question)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"unreadable": str(error)}


def file_fact(path: str) -> dict[str, str]:
    """Content, mode and owner of a file."""
    status = os.stat(path)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return {
        "sha256": digest,
        "mode": f"{status.st_mode & 0o7777:04o}",
        "owner": named(pwd.getpwuid, status.st_uid),
        "group": named(grp.getgrgid, status.st_gid),
    }


def named(lookup: Callable[[int], Any], number: int) -> str:
    """The name behind a user or group id, or the id."""
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def block_fact(question: dict[str, str]) -> str | None:
    """The lines between two marker lines of a file."""
    lines = text_of(question["path"]).splitlines()
    try:
        begin = lines.index(question["begin"])
        return "\n".join(lines[begin + 1 : lines.index(question["end"], begin)])
    except ValueError:
        return None


def lines_fact(question: dict[str, str]) -> list[str]:
    """The lines of a file that match."""
    return [line for line in text_of(question["path"]).splitlines() if re.search(question["regexp"], line)]


def sysctl_fact(key: str) -> dict[str, Any]:
    """The live value of a kernel setting, and whether it can be changed here at all."""
    path = "/proc/sys/" + key.replace(".", "/")
    # Root may write anywhere but on a read-only mount, which is how containers see /proc/sys.
    read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return {"value": " ".join(text_of(path).split()), "read_only": read_only}


def filesystem_fact(path: str) -> int:
    """Size in MiB."""
    status = os.statvfs(path)
    return status.f_blocks * status.f_frsize // (1 << 20)


def limit_fact(name: str) -> dict[str, str]:
    """The limit that a rank gets, in the units of limits.conf: ours, since we were started as the agent is.

    The same words of SSH, the same shell of the same user that is no login shell, the same PAM session. From there on
    a limit is only inherited: by the agent, by the processes that it forks, by what they exec.
    """
    number, unit = LIMITS[name]
    soft, hard = resource.getrlimit(number)
    infinite = resource.RLIM_INFINITY
    return {
        "soft": "unlimited" if soft == infinite else str(soft // unit),
        "hard": "unlimited" if hard == infinite else str(hard // unit),
    }


def link_fact(path: str) -> str:
    """Where a symbolic link points."""
    return os.readlink(path)


def report_fact(path: str, sudo_password: str | None = None) -> list[str]:
    """What a program of ours on this host says that differs. It may look at what only root sees."""
    os.stat(path)
    said = run_as_root(["/usr/bin/python3", "-IB", path, "show"], sudo_password)
    # The first time, sudo lectures before it obeys.
    report = next((line for line in said.splitlines() if line.startswith("{")), None)
    if report is None:
        raise ValueError(said.strip()[-200:] or f"{path} says nothing")
    return list(json.loads(report)["differences"])


def environment_fact(path: str) -> dict[str, Any]:
    """What a Python environment was installed as, and what it is now."""
    recorded = json.loads(text_of(os.path.join(path, MARKER)))
    return {
        "recorded": recorded["digest"],
        "digest": installed_digest(path),
        "runs": os.access(os.path.join(path, "bin", "python"), os.X_OK),
    }


def package_facts(names: list[str]) -> list[Any]:
    """Installed versions."""
    try:
        installed = rpm_versions(names) if has_rpm() else dpkg_versions(run([*DPKG_VERSIONS, "--", *names]))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return [{"unreadable": str(error)} for _ in names]
    return [installed.get(name) for name in names]


def dpkg_versions(said: str) -> dict[str, str]:
    """Package -> version, of those that are whole, in what DPKG_VERSIONS prints."""
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}


def rpm_versions(names: list[str]) -> dict[str, str]:
    """Package -> version, of those that rpm has."""
    return read_rpm(run([*RPM_VERSIONS, "--query", "--", *names]))


def read_rpm(said: str) -> dict[str, str]:
    """Package -> epoch:version-release.arch in what RPM_VERSIONS prints. Raises ValueError for complaints of rpm."""
    installed = {}
    for line in said.splitlines():
        if re.fullmatch(r"package \S+ is not installed", line):
            continue
        name, _, version = line.partition(" ")
        if not re.fullmatch(r"\d+:\S+-\S+", version):
            raise ValueError(line[:200])
        installed[name] = version
    return installed


def distribution() -> dict[str, Any]:
    """What this host runs, in the words of os-release: its name, and the ids of itself and of what it is like."""
    try:
        said = text_of("/etc/os-release")
    except OSError:
        said = ""
    return read_os_release(said)


def read_os_release(said: str) -> dict[str, Any]:
    """The same, of the text of os-release(5)."""
    found = dict(re.findall(r"""^([A-Z_]+)=["']?(.*?)["']?$""", said, re.MULTILINE))
    ids = [found.get("ID", "linux"), *found.get("ID_LIKE", "").split()]
    return {"name": found.get("PRETTY_NAME", ids[0]), "ids": ids}


def has_rpm() -> bool:
    """rpm knows what is installed here: not because it is there, but because the distribution is made of it."""
    return bool({"rhel", "fedora", "centos"} & set(distribution()["ids"]))


def service_facts(names: list[str]) -> list[Any]:
    """How systemd sees its units."""
    properties = {
        "LoadState": "load",
        "UnitFileState": "enabled",
        "ActiveState": "active",
        "ConditionResult": "condition",
    }
    try:
        said = run(["systemctl", "show", "--property=" + ",".join(properties), "--", *names])
    except (OSError, subprocess.TimeoutExpired) as error:
        return [{"unreadable": str(error)} for _ in names]
    units = [dict(line.partition("=")[::2] for line in unit.splitlines()) for unit in said.strip().split("\n\n")]
    if len(units) != len(names) or not all(set(properties) <= set(unit) for unit in units):
        return [{"unreadable": f"systemctl does not answer: {said.strip()[:200]}"} for _ in names]
    facts = [{ours: unit[theirs] for theirs, ours in properties.items()} for unit in units]
    return [None if fact["load"] == "not-found" else fact for fact in facts]


def hold_facts(names: list[str]) -> list[Any]:
    """Which packages the package manager leaves alone."""
    try:
        if has_rpm():
            locks = text_of(VERSION_LOCKS) if os.path.exists(VERSION_LOCKS) else ""
            installed = rpm_versions(names)
            return [is_locked(name, locks) if name in installed else None for name in names]
        said = run(["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Want}\n", "--", *names])
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return [{"unreadable": str(error)} for _ in names]
    wanted = dict(line.split() for line in said.splitlines() if len(line.split()) == 2)
    return [None if name not in wanted else wanted[name] == "hold" for name in names]


def is_locked(name: str, locks: str) -> bool:
    """One of dnf's version locks (`chrony-0:4.5-3.el9.*`; those that begin with ! exclude) is about the package."""
    return any(re.match(re.escape(name) + r"-\d", line.strip()) for line in locks.splitlines())


def sshd_facts(options: list[str], sudo_password: str | None = None) -> list[Any]:
    """What sshd's whole configuration comes to for a login from this host: option in lower case -> value.

    sshd reads its host keys first, which root alone may.
    """
    try:
        os.stat(SSHD)
        words = [SSHD, "-T", "-C", "user=root,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22"]
        said = run_as_root(words, sudo_password)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [None if getattr(error, "filename", "") == SSHD else {"unreadable": str(error)} for _ in options]
    effective = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    if "maxstartups" in effective:
        return [effective.get(option) for option in options]
    reason = (said.strip() or "sshd -T says nothing").splitlines()[0]
    return [{"unreadable": reason[:200]} for _ in options]


def bounding_capabilities() -> int:
    """Bit mask of the capabilities that this host's first process may ever have."""
    for line in text_of("/proc/1/status").splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0


def run_as_root(words: list[str], sudo_password: str | None) -> str:
    """What a program prints that root runs: through sudo where we are somebody else, with its password or without."""
    if os.geteuid() == 0:
        return run(words)
    if sudo_password is None:
        return run(["sudo", "--non-interactive", *words])
    # It goes in by stdin: what stands in argv or the environment, others can read.
    return run(["sudo", "--stdin", "--prompt=", *words], stdin=f"{sudo_password}\n")


def run(words: list[str], stdin: str = "") -> str:
    """What a program prints, both streams, whatever its exit code."""
    ended = subprocess.run(
        words,
        input=stdin.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEADLINE_S,
        check=False,
        env=dict(os.environ, LC_ALL="C"),
    )
    return ended.stdout.decode("utf-8", "replace")


SSHD = "/usr/sbin/sshd"
DPKG_VERSIONS = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status} ${Version}\n"]
RPM_VERSIONS = ["rpm", "--queryformat", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}.%{ARCH}\n"]
VERSION_LOCKS = "/etc/dnf/plugins/versionlock.list"
"""What `dnf versionlock` keeps."""

LIMITS = {
    "memlock": (resource.RLIMIT_MEMLOCK, 1024),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "stack": (resource.RLIMIT_STACK, 1024),
}

ONE: dict[str, Callable[[Any], Any]] = {
    "files": file_fact,
    "blocks": block_fact,
    "lines": lines_fact,
    "sysctls": sysctl_fact,
    "filesystems": filesystem_fact,
    "limits": limit_fact,
    "links": link_fact,
    "environments": environment_fact,
    "contents": text_of,
    "exists": os.path.exists,
    "reports": report_fact,
}
"""Questions that are answered one by one."""

MANY: dict[str, Callable[[list[Any]], list[Any]]] = {
    "packages": package_facts,
    "services": service_facts,
    "holds": hold_facts,
    "sshd": sshd_facts,
}
"""Questions that one program answers together."""


def main(questions: str, also: dict[str, Callable[[Any], Any]] | None = None, sudo_password: str | None = None) -> None:
    """Print the answers to `questions`, a JSON object: subject -> list of questions."""
    print(json.dumps(answer(json.loads(questions), also, sudo_password), separators=(",", ":")))
