"""What roles left on hosts, compared with the manifests that they wrote."""

from collections.abc import Iterable, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import manifest
from pylaunch.checks.check import Check
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.store.content import roles_directory


def _asks(host: Host, wanted: Wanted) -> Mapping[str, Any]:
    return manifest.roles.ask({"env_root": host.env_root, "is_privileged": None, "sudo_password": None})


def _drift(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(manifest.roles).items():
        for name, entry in found.items():
            role = name.partition("/")[0]
            if not role.isidentifier() or not (roles_directory() / role).is_dir():
                continue  # It would be part of a command that is printed, and --fix would run it.
            fix = f"pylaunch provision --roles {role} --limit {{hosts}}"
            reported = entry["reported"]
            if isinstance(reported, str):
                text = f"{role}: only root can look: {reported}"
                yield Finding("roles.drift", Severity.NOTE, (host,), text)
                reported = []
            for text in (*(" ".join(each) for each in entry["differences"]), *reported):
                yield Finding("roles.drift", Severity.WARN, (host,), f"{role}: {text}", fix, role)


CHECKS = (
    Check(
        "roles.drift",
        "what provisioning left",
        "A file, unit or setting that somebody changed since makes one host behave unlike the others.",
        "what each role recorded on the host; hosts that were not provisioned have no record",
        Severity.WARN,
        _asks,
        _drift,
    ),
)
