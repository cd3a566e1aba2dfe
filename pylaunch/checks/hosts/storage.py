"""The file systems that a run uses: responsive, writable, with free space."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pylaunch.agent.probe.readers.hosts import host as host_readers
from pylaunch.checks.check import AtStart, Check, asks
from pylaunch.checks.survey import Survey, Wanted
from pylaunch.model.cluster import Host
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import size
from pylaunch.protocol.readings.hosts import FilesystemReading

SHM_NEEDED = 256 << 20
"""Bytes, without devices: what the role host_baseline promises; loader workers pass batches through it."""

SHM_WITH_DEVICES = 1 << 30
"""Bytes. NCCL's shared-memory transport takes about 10 MB per pair of local ranks and data loaders one batch each;
containers start with 64 MB, which fails with "bus error" (NCCL user guide, troubleshooting: --shm-size=1g)."""

SHM_FREE = 64 << 20
"""Bytes that must be free there: a run that was killed may have left its own files."""

ROOM_NEEDED = 64 << 20
"""Bytes: what the agent wants for logs before it prepares a run."""

ROOM_WANTED = 1 << 30
"""Bytes: compilers, caches and loaders write about that much beside a run (gpud warns below 500 MB; our estimate)."""

INODES_NEEDED = 1000
"""Files that must still fit (our estimate: one import of torch leaves that many bytecode files)."""

RUN_FILES, TEMPORARY, WORKDIR, CHECKPOINTS = "run files", "temporary files", "working directory", "checkpoints"

_NO_WORKDIR = "take the code along with --sync ., or choose a directory that every node has: --workdir DIR"


def _ask(host: Host, wanted: Wanted) -> dict[str, Any]:
    questions: dict[str, Any] = {
        **host_readers.filesystem.ask({"path": host.node_root}, RUN_FILES),
        **host_readers.filesystem.ask({"path": wanted.temporary_dir, "write": True}, TEMPORARY),
    }
    if wanted.workdir:
        questions |= host_readers.filesystem.ask({"path": wanted.workdir}, f"{WORKDIR} {wanted.workdir}")
    if wanted.checkpoint_dir:
        questions |= host_readers.filesystem.ask(
            {"path": wanted.checkpoint_dir, "write": True}, f"{CHECKPOINTS} {wanted.checkpoint_dir}"
        )
    return questions


def _filesystems(survey: Survey) -> Iterator[tuple[str, str, FilesystemReading]]:
    """Return host, use and reading of each directory that a run uses."""
    for host, by_label in survey.labelled(host_readers.filesystem).items():
        for label, found in by_label.items():
            yield host, label, found


def _written(survey: Survey) -> Iterator[tuple[str, str, FilesystemReading]]:
    """Return host, name for display and reading of each file system to which a run writes."""
    uses: dict[tuple[str, str], list[str]] = {}
    readings: dict[tuple[str, str], FilesystemReading] = {}
    for host, label, found in _filesystems(survey):
        if not label.startswith(WORKDIR):
            uses.setdefault((host, found["mount"]), []).append(label)
            readings.setdefault((host, found["mount"]), found)
    for (host, mount), labels in uses.items():
        yield host, f"{mount} ({', '.join(labels)})", readings[host, mount]


def hosts_without_workdir(survey: Survey) -> Collection[str]:
    """Return the hosts without a working directory, which storage.writable reports."""
    return [host for host, label, found in _filesystems(survey) if label.startswith(WORKDIR) and not found["exists"]]


def _writable(survey: Survey) -> Iterable[Finding]:
    for host, name, found in _written(survey):
        if found["read_only"]:
            text = f"{name} is mounted read-only: nothing can be written there"
            fix = f"findmnt {quoted((found['mount'],))}; a disk with errors is remounted so: dmesg"
            yield Finding("storage.writable", Severity.FAIL, (host,), text, fix)
    somewhere = {label for _, label, found in _filesystems(survey) if found["exists"]}
    for host, label, found in _filesystems(survey):
        is_workdir = label.startswith(WORKDIR)
        path = survey.wanted.workdir if is_workdir else survey.wanted.checkpoint_dir
        if found["exists"] and found["refused"] and not found["read_only"] and not _is_full(found):
            text = f"{label}: a file cannot be written in {found['asked']}: {found['refused']}"
            yield Finding("storage.writable", Severity.FAIL, (host,), text, quoted(("ls", "-ld", found["asked"])))
        elif not found["exists"] and (is_workdir or (label.startswith(CHECKPOINTS) and label in somewhere)):
            severity = Severity.FAIL if is_workdir else Severity.WARN
            if found["refused"]:
                text = f"{label} cannot be reached: {found['refused']}"
                fix = f"on the host: {quoted(('ls', '-ld', path))}"
            elif is_workdir:
                text, fix = f"{label} does not exist", _NO_WORKDIR
            else:
                text = f"{label} does not exist here, and does on other hosts"
                fix = f"mkdir -p {quoted((path,))}, or mount it"
            yield Finding("storage.writable", severity, (host,), text, fix)


def _room(survey: Survey) -> Iterable[Finding]:
    for host, name, found in _written(survey):
        free, wanted = found["free"], ROOM_NEEDED if found["free"] < ROOM_NEEDED else ROOM_WANTED
        if free < wanted and not found["read_only"]:
            severity = Severity.FAIL if wanted == ROOM_NEEDED else Severity.WARN
            text = f"{name} has {size(free)} free of {size(found['size'])}, expected {size(wanted)}"
            yield Finding("storage.room", severity, (host,), text, f"df -h {quoted((found['mount'],))}")
        if _is_out_of_inodes(found) and not found["read_only"]:
            text = f"{name} has room for {found['inodes_free']} more files (inodes), expected {INODES_NEEDED}"
            yield Finding("storage.room", Severity.FAIL, (host,), text, f"df -i {quoted((found['mount'],))}")


def _is_full(found: FilesystemReading) -> bool:
    """Return whether the file system is full, which storage.room reports."""
    return found["free"] < ROOM_NEEDED or _is_out_of_inodes(found)


def _is_out_of_inodes(found: FilesystemReading) -> bool:
    # File systems that create inodes on demand (btrfs) report a total of zero.
    return found["inodes"] > 0 and found["inodes_free"] < INODES_NEEDED


def _shm(survey: Survey) -> Iterable[Finding]:
    for host, found in survey.measured(host_readers.shm).items():
        with_devices = len(survey.wanted.devices.get(host, ())) > 1
        wanted, severity = (SHM_WITH_DEVICES, Severity.FAIL) if with_devices else (SHM_NEEDED, Severity.WARN)
        if found["size"] < wanted:
            text = f"/dev/shm holds {size(found['size'])}, expected at least {size(wanted)}"
            fix = "mount -o remount,size=50% /dev/shm (in a container: --shm-size or --ipc=host)"
            yield Finding("storage.shared_memory", severity, (host,), text, fix, "host_baseline")
        elif found["free"] < SHM_FREE:
            text = f"/dev/shm has {size(found['free'])} free of {size(found['size'])}, expected {size(SHM_FREE)}"
            yield Finding("storage.shared_memory", Severity.WARN, (host,), text, "ls -lS /dev/shm")


CHECKS = (
    Check(
        "storage.writable",
        "directories of a run answer and can be written",
        "A file system that hangs (NFS without its server) blocks every process that touches it, even against SIGKILL.",
        "stat, statvfs and writing a small file answer within 3 s, in a process that can be abandoned",
        Severity.FAIL,
        _ask,
        _writable,
        silence=Severity.FAIL,
        at_start=AtStart.ASKED,
    ),
    Check(
        "storage.room",
        "space on the disks of a run",
        "A checkpoint or log that does not fit ends the run after most of its work is done.",
        f"threshold: {size(ROOM_NEEDED)} (fail) and {size(ROOM_WANTED)} (warn) where a run writes;"
        f" {INODES_NEEDED} inodes",
        Severity.FAIL,
        _ask,
        _room,
        silence=Severity.FAIL,
        at_start=AtStart.ASKED,
    ),
    Check(
        "storage.shared_memory",
        "space in /dev/shm",
        "NCCL and data loaders share memory there; without space they die with a bus error.",
        f"threshold: {size(SHM_NEEDED)}, with two devices or more {size(SHM_WITH_DEVICES)} (NCCL user guide);"
        f" {size(SHM_FREE)} of it free",
        Severity.FAIL,
        asks(host_readers.shm),
        _shm,
        at_start=AtStart.ASKED,
    ),
)
