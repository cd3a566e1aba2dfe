"""Errors of provisioning, as the user reads them. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from pylaunch.errors import ProvisionError
from pylaunch.features.provision.manifest import Change
from pylaunch.model.cluster import ENV_ROOT, Cluster
from pylaunch.model.hostset import alike, fold
from pylaunch.probe.ask import Unreachable, unreachable_error
from pylaunch.transport.runner import Failure

_PASSWORD = "repeat the command with -K (--ask-become-pass): sudo wants the password on {hosts}"
_WAIT = "wait until that process has ended, then: pylaunch provision --limit {hosts}"
_MIRROR = "{hosts} must reach a package mirror: apt-get update there says more"
_HINTS: Mapping[str, str] = {
    "Missing sudo password": _PASSWORD,
    "a password is required": _PASSWORD,
    "Incorrect sudo password": _PASSWORD,
    "Duplicate sudo password prompt": _PASSWORD,
    "sudo: not found": "install sudo on {hosts}, or connect as root: ansible_user=root",
    "sudo: command not found": "install sudo on {hosts}, or connect as root: ansible_user=root",
    "is not in the sudoers file": "let the user of {hosts} use sudo, or connect as root: ansible_user=root",
    "although package python3 is installed": "on {hosts}: apt-get install --reinstall python3-minimal; or name another"
    " interpreter in the inventory: ansible_python_interpreter=",
    "a run uses the environment": "stop it and repeat the command; who uses each host: pylaunch gpus --limit {hosts}",
    f"{ENV_ROOT}: Permission denied": "name a directory of the user in the inventory,"
    " pylaunch_env_root=/home/USER/envs",
    "No space left on device": "free space on {hosts}, then: pylaunch provision --limit {hosts}",
    "uv pip failed": "name an index or a directory of wheels that {hosts} can reach: pylaunch help air-gapped",
    "/var/lib/dpkg/lock": _WAIT,
    "/var/lib/apt/lists/lock": _WAIT,
    "Failed to lock apt": _WAIT,
    "dpkg was interrupted": "on {hosts}: dpkg --configure -a, then: pylaunch provision --limit {hosts}",
    "Failed to fetch": _MIRROR,
    "Temporary failure resolving": _MIRROR,
    "has no installation candidate": _MIRROR,
    "Could not fetch updated apt files": _MIRROR,
    "Failed to update apt cache": _MIRROR,
    "No package matching": _MIRROR,
    "Unable to locate package": _MIRROR,
}
"""Text in the message of a task to what mends it; the first that is there."""


def provision_error(
    cluster: Cluster,
    failures: Sequence[Failure],
    remaining: Mapping[str, Sequence[Change]] | None = None,
    unreachable: Mapping[str, Unreachable] | None = None,
    *,
    rolled_back: bool = False,
) -> ProvisionError:
    """Return the error about failed tasks, what `remaining` says to differ after all tasks, and hosts out of reach.

    With `rolled_back`, the environment of before is the locked one now, and a second --rollback would undo that.
    """
    messages, evidence, hints = [], list(_failed_tasks(failures)), []
    if failures:
        hosts = dict.fromkeys(failure.host for failure in failures)
        messages.append(f"{len(hosts)} of {len(cluster.hosts)} hosts could not be provisioned: {fold(hosts)}")
        hints.append(_hint(failures))
        if rolled_back:
            hints.append("omit --rollback then: the environment is rolled back, and --rollback would undo that")
    if remaining:
        messages.append(f"still not as it should be after provisioning: {fold(remaining)}")
        for names, change in alike(remaining):
            evidence.append(f"{names}  {change.role or 'host'}: {change.subject} {change.difference}")
        without_python = [host for host, changes in remaining.items() if any(not change.role for change in changes)]
        if without_python:
            key = "pylaunch_agent_python or ansible_python_interpreter"
            hints.append(f"correct {key} of {fold(without_python)} in the inventory")
        if len(without_python) < len(remaining):
            hints.append(
                "something on the host undoes it: another tool that manages it, or a setting that overrides ours"
            )
    if unreachable:
        also = unreachable_error(unreachable, cluster)
        messages.append(f"{fold(unreachable)} cannot be reached")
        evidence += also.evidence
        hints += [also.hint] if also.hint is not None else []
    return ProvisionError("; ".join(messages), evidence=evidence, hint="\n      ".join(hints))


def _failed_tasks(failures: Sequence[Failure]) -> Iterator[str]:
    """Yield each task that failed with its message, once for all hosts."""
    reasons: dict[str, list[str]] = {}
    for failure in failures:
        role = f"{failure.role}: " if failure.role else ""
        reasons.setdefault(failure.host, []).append(f"{role}{failure.task}: {failure.message}")
    for names, text in alike(reasons):
        first, *more = text.splitlines()
        yield f"{names}  {first}"
        yield from (f"    {line}" for line in more)


def _hint(failures: Sequence[Failure]) -> str:
    for needle, hint in _HINTS.items():
        hosts = [failure.host for failure in failures if needle in failure.message]
        if hosts:
            return hint.format(hosts=fold(hosts))
    return f"after mending that: pylaunch provision --limit {fold(failure.host for failure in failures)}"
