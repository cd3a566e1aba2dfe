"""The login environment, which must be the same on all hosts: variables and user."""

import hashlib
import re
from collections.abc import Iterable

from pylaunch.agent.probe.readers.hosts import reach as login_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import Rule, odd_ones
from pylaunch.model.secret import MASK, sounds_secret
from pylaunch.model.setting import PER_NODE

_CREDENTIALS = re.compile(r"://([^/@\s]+)@")
"""User and password in a URL, as those of a proxy."""

NETWORK_TYPES = ("nfs", "nfs4", "lustre", "ceph", "gpfs", "beegfs", "fuse.glusterfs", "cifs", "smb3", "wekafs")

_ONE_USER = "log in as one user everywhere: ansible_user= in the inventory"
_ONE_NUMBER = (
    "as root on {hosts}: usermod --uid N USER; groupmod --gid N GROUP; then chown the files of the old numbers outside "
    "its home"
)
_ONE_GROUPS = "as root on {hosts}, for each group that is missing: usermod --append --groups GROUP USER"


def _variables(survey: Survey) -> Iterable[Finding]:
    found = survey.measured(login_readers.variables)
    for name in sorted({name for each in found.values() for name in each}):
        if name in PER_NODE:
            continue
        fix = f"see where {{hosts}} set it: grep -r {name} /etc/environment /etc/profile.d ~/.ssh/environment"
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
    shared = {host for host, each in found.items() if each["home_type"] in NETWORK_TYPES}
    # Shared file systems compare numeric ids: with another id, a user does not own its files.
    severity = Severity.FAIL if shared else Severity.WARN
    users = {host: str(each["user"]) for host, each in found.items()}
    if len(set(users.values())) > 1:
        # Their ids and groups differ anyway, and those of root must never change.
        yield from odd_ones(Rule("login.identity", severity, "login user", _ONE_USER), users)
    for user in dict.fromkeys(users.values()):
        same = {host: found[host] for host in found if users[host] == user}
        numbers = {host: f"{user} {each['uid']}:{each['gid']}" for host, each in same.items()}
        yield from odd_ones(Rule("login.identity", severity, "user and group numbers", _ONE_NUMBER), numbers)
        groups = {host: ", ".join(each["groups"]) for host, each in same.items()}
        yield from odd_ones(Rule("login.identity", Severity.WARN, "groups", _ONE_GROUPS), groups)
    homes = {host: "shared" if host in shared else "local" for host in found}
    rule = Rule("login.identity", Severity.WARN, "home directory", "findmnt --target ~ on {hosts}: is it not mounted?")
    yield from odd_ones(rule, homes)
    umasks = {host: str(each["umask"]) for host, each in found.items()}
    yield from odd_ones(Rule("login.identity", Severity.WARN, "umask", "grep -i umask /etc/login.defs"), umasks)


CHECKS = (
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
        "user, groups and home",
        "Shared file systems use user ids: the same user with another id cannot write its own checkpoints.",
        "the majority; different user ids fail if homes are on a network file system, and warn otherwise",
        Severity.FAIL,
        asks(login_readers.user),
        _identity,
        at_start=AtStart.ASKED,
    ),
)
