"""The archive of an environment leaves the controller once: hosts that lack it pass it on before Ansible runs.

Hosts with the environment before this one get an archive of the wheels that it had not. Each host keeps what it
receives in its store of content. The role python_env takes it from there if it has the hash that Ansible carries and
contains what the host needs, and copies it from the controller otherwise.
"""

import tarfile
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pylaunch.agent.probe.readers.hosts import python_env
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import NodeRoot
from pylaunch.broadcast.payload import stored_files
from pylaunch.broadcast.progress import lines_of_progress
from pylaunch.errors import UsageError
from pylaunch.features.provision.environments.environment import (
    ARCHIVE,
    DamagedManifestError,
    EnvironmentManifest,
    previous_of,
    read_manifest,
)
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.diagnosis.host_errors import alike_errors
from pylaunch.model.run import Notes
from pylaunch.model.text.quantity import shown_size
from pylaunch.probe.answers import value, values
from pylaunch.probe.ask import ask, understood_all
from pylaunch.probe.program import probe

LEAST_SAVED = 32 << 20
"""Bytes that the controller must save: programs on all hosts take a second or more (measurements: "Push")."""


def lacking(cluster: Cluster, environment: str) -> dict[str, str]:
    """Return the hosts without `environment`, each with the id of the one under its link, or under `current`; "" for
    none. Hosts that do not answer are left to Ansible."""
    questions = {
        host.name: python_env.environments.ask({"path": f"{host.env_root}/envs/{environment}", "links": _links(host)})
        for host in cluster.hosts
    }
    programs = {name: probe(question) for name, question in questions.items()}
    found, _ = understood_all(
        ask(cluster, programs),
        cluster,
        lambda answered: value(values(answered, [python_env.environments]), python_env.environments),
    )
    return {name: each for name, each in found.items() if isinstance(each, str)}


def _links(host: Host) -> list[str]:
    named = [] if host.env_name is None else [f"{host.env_root}/named/{host.env_name}"]
    return [*named, f"{host.env_root}/current"]


def pass_on_archive(cluster: Cluster, directory: Path, on_note: Notes) -> dict[str, object]:
    """Put the archive of the environment in `directory`, or the part that they lack, on the hosts of `cluster` without
    it; return the variable of the role that says where it is. Raises KeyboardInterrupt."""
    manifest = read_manifest(directory) if len(cluster.hosts) > 1 else None
    if manifest is None:
        return {}
    wanted = lacking(cluster, manifest.id)
    archive = directory / ARCHIVE
    transfer = _ArchiveBroadcast(cluster, on_note)
    received: dict[str, object] = {}
    try:
        if archive.stat().st_size == manifest.archive_bytes:
            received = transfer.to([host for host, has in wanted.items() if not has], archive)
        before = _manifest_before(directory)
        updated = [host for host, has in wanted.items() if before is not None and has == before.id]
        if before is not None and len(updated) > 1:
            members = [name for name, digest in manifest.files.items() if before.files.get(name) != digest]
            with tempfile.TemporaryDirectory(prefix=".environment-", dir=directory.parent) as scratch:
                part = _part(archive, members, Path(scratch, ARCHIVE))
                received |= transfer.to(updated, part, {"members": members})
    except (OSError, tarfile.TarError) as error:  # The role says for each host what is wrong with the archive.
        on_note(f"note: hosts do not pass the archive on: {error}")
    return {"python_env_received": received} if received else {}


def _manifest_before(directory: Path) -> EnvironmentManifest | None:
    try:
        return read_manifest(previous_of(directory))
    except DamagedManifestError:
        return None


def _part(archive: Path, members: Collection[str], part: Path) -> Path:
    """Write an archive with `members` of `archive`."""
    with tarfile.open(archive, "r:") as whole, tarfile.open(part, "w:") as made:
        for member in whole:
            if member.name in members:
                made.addfile(member, whole.extractfile(member))
    return part


@dataclass(frozen=True)
class _ArchiveBroadcast:
    cluster: Cluster
    on_note: Notes

    def to(
        self, names: Sequence[str], archive: Path, also: Mapping[str, object] = MappingProxyType({})
    ) -> dict[str, object]:
        """Broadcast `archive` to hosts where that saves enough; return what the role needs to take it, by host."""
        size = archive.stat().st_size
        if not names or (len(names) - 1) * size < LEAST_SAVED:
            return {}
        from pylaunch.broadcast.spread import broadcast  # noqa: PLC0415 - it takes 50 ms, and archives are rarely new

        progress = lines_of_progress(lambda line: self.on_note(f"environment: {line}"))
        try:
            payload = stored_files({archive: size})
            result = broadcast(self.cluster.only(names), payload, rate=0, on_progress=progress)
        except UsageError as error:
            self.on_note(f"note: {error.message}, so this machine copies it")
            return {}
        sent = sum(received.sent for received in result.hosts.values())
        lacked = sum(payload.size - received.had for received in result.hosts.values())
        self.on_note(f"environment: this machine sent {shown_size(sent)}; the hosts lacked {shown_size(lacked)}")
        reasons = {name: (received.error,) for name, received in result.hosts.items() if received.error is not None}
        for hosts, reason in alike_errors(self.cluster.hosts, reasons):
            self.on_note(f"note: {hosts}: no archive from other hosts, so this machine copies it: {reason}")
        for remark in result.remarks:
            self.on_note(remark)
        there = [host for host in self.cluster.hosts if host.name in names and host.name not in reasons]
        digest = payload.files[0].digest
        return {
            host.name: {"path": NodeRoot(host.node_root).blob(digest), "sha256": digest, "size": size, **also}
            for host in there
        }
