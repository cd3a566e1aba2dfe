"""Limits of a rank, and the login that it has."""

import hashlib
import re
from collections.abc import Iterable

from pylaunch.agent.probe.readers.devices import infiniband
from pylaunch.agent.probe.readers.hosts import host as host_readers
from pylaunch.agent.probe.readers.hosts import reach as login_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.secret import MASK, sounds_secret
from pylaunch.model.setting import PER_NODE
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import size

FILES_AT_LEAST = 512
"""Loader workers, log files and a socket per peer of a few ranks; below it even a single node fails (our estimate)."""

FILES_WITH_DEVICES = 32768
"""NCCL opens several sockets and files per peer: its user guide (troubleshooting) describes a job of 144 ranks
that needs more than 32K, and sets 131072. Below 32K the check warns (our estimate)."""

LOCKED_AT_LEAST = 8 << 20
"""Bytes: the kernel's own default since Linux 5.16; before, it was 64 KiB, which RDMA soon uses up."""

LOCKED_FOR_RDMA = 1 << 30
"""Bytes. Every queue and buffer that an adapter reaches is locked; NCCL's guide wants no limit at all."""

PROCESSES_LEFT = 1024
"""Threads that must remain: a rank of PyTorch starts about two per core and one per loader worker (our estimate)."""

_ROLE = "host_baseline"
_FIX = "pylaunch provision --roles host_baseline --limit {hosts}"
"""{hosts} is filled in when the hosts of a finding are known."""


def _files(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(host_readers.limits).items():
        soft = found["open files"]["soft"]
        if soft is None:
            continue
        if soft < FILES_AT_LEAST:
            text = f"a rank may have {soft} files and sockets open, expected at least {FILES_AT_LEAST}"
            yield Finding("limits.files", Severity.FAIL, (host,), text, _FIX, _ROLE)
        elif soft < FILES_WITH_DEVICES and survey.wanted.devices.get(host) and len(survey.cluster.hosts) > 1:
            text = f"a rank may have {soft} files and sockets open, at scale NCCL needs {FILES_WITH_DEVICES}"
            yield Finding("limits.files", Severity.WARN, (host,), text, _FIX, _ROLE)


def _locked(survey: Survey) -> Iterable[Finding]:
    adapters = survey.measured(infiniband.adapters)  # Where another check asks for them: not at a start.
    for host, found in survey.measured(host_readers.limits).items():
        soft = found["locked memory"]["soft"]
        uses_rdma = survey.wanted.infiniband or any(port["state"] == "ACTIVE" for port in adapters.get(host) or ())
        needed, severity = (LOCKED_FOR_RDMA, Severity.FAIL) if uses_rdma else (LOCKED_AT_LEAST, Severity.WARN)
        if soft is not None and soft < needed:
            text = f"a rank may lock {size(soft)} of memory, expected unlimited: RDMA registers every buffer it sends"
            yield Finding("limits.locked_memory", severity, (host,), text, _FIX, _ROLE)


def _processes(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(host_readers.limits).items():
        soft = found["processes"]["soft"]
        if soft is not None and soft < PROCESSES_LEFT:
            text = f"our user may have {soft} processes and threads, expected at least {PROCESSES_LEFT}"
            fix = "raise nproc in /etc/security/limits.d, and log in again"
            yield Finding("limits.processes", Severity.FAIL, (host,), text, fix)


CHECKS = (
    Check(
        "limits.files",
        "open files of a rank",
        "A rank holds a socket per peer and channel; without descriptors NCCL and loaders fail at some node count.",
        f"threshold: {FILES_AT_LEAST}; with devices and several hosts {FILES_WITH_DEVICES}",
        Severity.FAIL,
        asks(host_readers.limits),
        _files,
        at_start=AtStart.ASKED,
    ),
    Check(
        "limits.locked_memory",
        "memory a rank may lock",
        "RDMA registers the memory it sends from; a limit makes ibv_reg_mr fail with 'Cannot allocate memory'.",
        "threshold: with an active adapter or --infiniband 1 GiB (NCCL's guide: unlimited), else 8 MiB (the kernel's"
        " default since 5.16)",
        Severity.FAIL,
        asks(host_readers.limits),
        _locked,
        at_start=AtStart.ASKED,
    ),
    Check(
        "limits.processes",
        "processes and threads of the user",
        "Ranks, loader workers and their threads count together; at the limit fork and thread creation fail.",
        f"threshold: {PROCESSES_LEFT}",
        Severity.FAIL,
        asks(host_readers.limits),
        _processes,
        at_start=AtStart.ASKED,
    ),
)


_CREDENTIALS = re.compile(r"://([^/@\s]+)@")
"""User and password in a URL, as those of a proxy."""

NETWORK_TYPES = ("nfs", "nfs4", "lustre", "ceph", "gpfs", "beegfs", "fuse.glusterfs", "cifs", "smb3", "wekafs")

_ONE_USER = "log in as one user everywhere (ansible_user= in the inventory) that has the same numbers: id USER"


def _variables(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(login_readers.variables)
    for name in sorted({name for each in found.values() for name in each}):
        if name in PER_NODE:
            continue
        fix = (
            f"see where {{hosts}} set it: grep -r {quoted((name,))} /etc/environment /etc/profile.d ~/.ssh/environment"
        )
        rule = Rule("login.variables", Severity.WARN, f"variable {name} of a login", fix)
        yield from odd_ones(rule, {host: _shown(name, each.get(name, "")) for host, each in found.items()})


def _shown(name: str, value: str) -> str:
    """Return `value` for display; of a secret, only a mark that shows whether two are equal."""
    if value and sounds_secret(name):
        return _masked(value)
    return _CREDENTIALS.sub(lambda found: f"://{_masked(found.group(1))}@", value)


def _masked(secret: str) -> str:
    return f"{MASK} (SHA-256 {hashlib.sha256(secret.encode()).hexdigest()[:4]}…)"


def _identity(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(login_readers.user)
    # Shared file systems compare numeric ids: with another id, a user does not own its files.
    is_shared = any(each["home_type"] in NETWORK_TYPES for each in found.values())
    rule = Rule("login.identity", Severity.FAIL if is_shared else Severity.WARN, "login user and numbers", _ONE_USER)
    yield from odd_ones(rule, {host: f"{each['user']} {each['uid']}:{each['gid']}" for host, each in found.items()})


LOGIN_CHECKS = (
    Check(
        "login.variables",
        "environment variables of a login",
        "NCCL_, CUDA_, OMP_ and similar variables change algorithms and interfaces on one node: silent hangs.",
        "the majority; variables that may differ between nodes are ignored (reference of variables)",
        Severity.WARN,
        asks(login_readers.variables),
        _variables,
        at_start=AtStart.ASKED,
    ),
    Check(
        "login.identity",
        "user and its numbers",
        "Shared file systems use user ids: the same user with another id cannot write its own checkpoints.",
        "the majority; different user ids fail if homes are on a network file system, and warn otherwise",
        Severity.FAIL,
        asks(login_readers.user),
        _identity,
        at_start=AtStart.ASKED,
    ),
)
