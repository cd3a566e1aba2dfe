"""Errors of provisioning, as the user reads them. Pure."""

from collections.abc import Mapping, Sequence

from pylaunch.errors import ProvisionError
from pylaunch.features.provision.manifest import Change
from pylaunch.model.cluster import ENV_ROOT, Cluster
from pylaunch.model.hostset import alike, fold
from pylaunch.probe.ask import NoPython, Unreachable, unreachable_error
from pylaunch.transport.runner import Failure

_REINSTALL = (
    "on {hosts}: apt-get install --reinstall python3-minimal; or name another interpreter"
    " in the inventory: ansible_python_interpreter="
)
_HINTS: tuple[tuple[str, str], ...] = (
    ("Missing sudo password", "ask for the password with pylaunch provision --ask-become-pass (-K)"),
    ("a password is required", "ask for the password with pylaunch provision --ask-become-pass (-K)"),
    ("Incorrect sudo password", "the password was not accepted; try again: pylaunch provision -K"),
    ("Duplicate sudo password prompt", "the password was not accepted; try again: pylaunch provision -K"),
    ("sudo: not found", "install sudo on {hosts}, or connect as root: ansible_user=root"),
    ("sudo: command not found", "install sudo on {hosts}, or connect as root: ansible_user=root"),
    ("is not in the sudoers file", "let the user of {hosts} use sudo, or connect as root: ansible_user=root"),
    ("although package python3 is installed", _REINSTALL),
    ("a run uses the environment", "stop it and repeat the command; who uses each host: pylaunch gpus --limit {hosts}"),
    (
        f"{ENV_ROOT}: Permission denied",
        "name a directory of the user in the inventory, pylaunch_env_root=/home/USER/envs",
    ),
    ("No space left on device", "free space on {hosts}, then: pylaunch provision --limit {hosts}"),
    ("/var/lib/dpkg/lock", "wait until that process has ended, then: pylaunch provision --limit {hosts}"),
    ("/var/lib/apt/lists/lock", "wait until that process has ended, then: pylaunch provision --limit {hosts}"),
    ("Failed to lock apt", "wait until that process has ended, then: pylaunch provision --limit {hosts}"),
    ("dpkg was interrupted", "on {hosts}: dpkg --configure -a, then: pylaunch provision --limit {hosts}"),
    ("Failed to fetch", "{hosts} must reach a package mirror: apt-get update there says more"),
    ("Temporary failure resolving", "{hosts} must reach a package mirror: apt-get update there says more"),
    ("has no installation candidate", "{hosts} must reach a package mirror: apt-get update there says more"),
    ("Could not fetch updated apt files", "{hosts} must reach a package mirror: apt-get update there says more"),
    ("Failed to update apt cache", "{hosts} must reach a package mirror: apt-get update there says more"),
    ("No package matching", "{hosts} must reach a package mirror: apt-get update there says more"),
    ("Unable to locate package", "{hosts} must reach a package mirror: apt-get update there says more"),
)


_UNDONE = "something on the host undoes it: another tool that manages it, or a setting that overrides ours"


def failure_error(failures: Sequence[Failure], total: int) -> ProvisionError:
    """Return the error for failed tasks; equal messages of several hosts are reported once."""
    reported: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        title = f"{failure.role}: {failure.task}" if failure.role else failure.task
        reported.setdefault((title, failure.message), []).append(failure.host)
    evidence = []
    for (title, message), names in reported.items():
        first, *more = message.splitlines()
        evidence += [f"{fold(names)}  {title}: {first}", *(f"    {line}" for line in more)]
    hosts = {failure.host for failure in failures}
    return ProvisionError(
        f"{len(hosts)} of {total} hosts could not be provisioned: {fold(hosts)}",
        evidence=evidence,
        hint=_hint(failures),
    )


def _hint(failures: Sequence[Failure]) -> str:
    for needle, hint in _HINTS:
        hosts = [failure.host for failure in failures if needle in failure.message]
        if hosts:
            return hint.format(hosts=fold(hosts))
    return f"after mending that: pylaunch provision --limit {fold(failure.host for failure in failures)}"


def with_unreachable(
    error: ProvisionError, unreachable: Mapping[str, Unreachable], cluster: Cluster
) -> ProvisionError:  # fmt: skip
    """Return `error`, about other hosts, with the hosts of `cluster` that could not be reached."""
    also = unreachable_error(unreachable, cluster)
    hints = [hint for hint in (error.hint, also.hint) if hint is not None]
    return ProvisionError(
        f"{error.message}; {fold(unreachable)} cannot be reached",
        evidence=(*error.evidence, *also.evidence),
        hint="\n      ".join(hints) or None,
    )


def no_python_error(missing: Mapping[str, NoPython], total: int) -> ProvisionError:
    """Return the error for hosts that still lack the agent's interpreter after a successful playbook."""
    reasons = {host: (each.path,) for host, each in missing.items()}
    return ProvisionError(
        f"{len(missing)} of {total} hosts have no interpreter for the agent: {fold(missing)}",
        evidence=[f"{hosts}  no interpreter at {path}" for hosts, path in alike(reasons)],
        hint=f"correct pylaunch_agent_python or ansible_python_interpreter of {fold(missing)} in the inventory",
    )


def remaining_error(changes: Mapping[str, Sequence[Change]]) -> ProvisionError:
    """Return the error for hosts that still differ after all tasks succeeded."""
    different = {host: each for host, each in changes.items() if each}
    return ProvisionError(
        f"still not as it should be after provisioning: {fold(different)}",
        evidence=[
            f"{hosts}  {change.role}: {change.subject} {change.difference}" for hosts, change in alike(different)
        ],
        hint=_UNDONE,
    )
