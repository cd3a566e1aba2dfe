"""The archive of an environment leaves the controller once: hosts that lack it pass it on before Ansible runs.

Each host keeps it in its store of content. The role python_env takes it from there if it has the hash that Ansible
carries, and copies it from the controller otherwise.
"""

import os
from pathlib import Path

from pylaunch.base.layout import NodeRoot
from pylaunch.broadcast.payload import stored_files
from pylaunch.broadcast.progress import lines_of_progress
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.host_errors import alike_errors
from pylaunch.model.notes import Notes
from pylaunch.model.text.size import shown_size
from pylaunch.provision.convergence import ProvisionSurvey
from pylaunch.provision.environments.environment import ARCHIVE, read_manifest

LEAST_SAVED = 32 << 20
"""Bytes that the controller must save: programs on all hosts take a second or more (measurements: "Push")."""


def lacking(found: ProvisionSurvey) -> dict[str, str]:
    """Return the ids of the environments of hosts that have none under its link nor under `current`, by host.

    Hosts with another one usually lack few of the wheels, and the role copies those."""
    return {
        host: environment.id
        for host, facts in found.facts.items()
        for state in found.desired.hosts[host]
        for environment in state.environments
        if not any(facts.links.get(path) for path in (environment.unnamed, *(link.path for link in state.links)))
    }


def pass_on_archive(
    found: ProvisionSurvey, directory: Path, cluster: Cluster, on_note: Notes, *, rate: int = 0
) -> dict[str, object]:
    """Put the archive of the environment in `directory` on the hosts that lack it; return the variable of the role that
    says where it is. With `rate`, bytes per second, also where nothing is saved: Ansible sends as fast as it can.
    Raises KeyboardInterrupt."""
    wanted = lacking(found)
    manifest = read_manifest(directory) if len(wanted) > 1 or (wanted and rate) else None
    names = [name for name, identifier in wanted.items() if manifest is not None and identifier == manifest.id]
    if manifest is None or not names:
        return {}
    if not rate and (len(names) - 1) * manifest.archive_bytes < LEAST_SAVED:
        return {}
    from pylaunch.broadcast.spread import broadcast  # noqa: PLC0415 - it takes 50 ms, and archives are rarely new

    archive = directory / ARCHIVE
    try:
        with archive.open("rb") as file:
            if os.fstat(file.fileno()).st_size != manifest.archive_bytes:
                return {}
    except OSError:
        return {}  # The role says for each host what is wrong with it.
    progress = lines_of_progress(lambda line: on_note(f"environment: {line}"))
    try:
        payload = stored_files({archive: manifest.archive_bytes})
        result = broadcast(cluster.only(names), payload, rate=rate, on_progress=progress)
    except UsageError as error:
        on_note(f"note: {error.message}, so this machine copies it")
        return {}
    sent = sum(received.sent for received in result.hosts.values())
    lacked = sum(payload.size - received.had for received in result.hosts.values())
    on_note(f"environment: this machine sent {shown_size(sent)}; the hosts lacked {shown_size(lacked)}")
    reasons = {name: (received.error,) for name, received in result.hosts.items() if received.error is not None}
    for hosts, reason in alike_errors(cluster.hosts, reasons):
        on_note(f"note: {hosts}: no archive from other hosts, so this machine copies it: {reason}")
    for remark in result.remarks:
        on_note(remark)
    there = [host for host in cluster.hosts if host.name in names and host.name not in reasons]
    digest = payload.files[0].digest
    places = {host.name: NodeRoot(host.node_root).blob(digest) for host in there}
    return {"python_env_received": {name: {"path": path, "sha256": digest} for name, path in places.items()}}
