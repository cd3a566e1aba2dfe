"""Types of the questions and readings of the probe, for type checkers and for the controller's decoder.

A renamed key fails mypy in the reader and in the check that judges it; the controller decodes what a host sends against
the same types.
"""

from __future__ import annotations

from typing import TypedDict


class ManifestQuestion(TypedDict):
    """Root of the environments, whether roles run as root (None: either), and the password with which sudo lets a
    role's own program look."""

    env_root: str
    is_privileged: bool | None
    sudo_password: str | None


class ManifestEntry(TypedDict):
    """One role in the manifest of a host: what it was given, its notes, and how the host differs from its record."""

    inputs: str
    notes: list[str]
    differences: list[list[str]]
    reported: list[str] | str


class ProcessReading(TypedDict):
    """A process that uses the host for training, or an ancestor or descendant of one."""

    pid: int
    parent: int
    started: int
    began: float
    uid: int
    user: str
    command: str
    cwd: str
    rank: bool
    run: str | None
    run_is_live: bool
    devices: list[str]
    ports: list[int]
    is_terminal: bool
    is_reaper: bool
    service: str
    container: str


class PortListener(TypedDict):
    """A port that a process listens on that could not be seen."""

    port: int
    user: str


class OccupantsReading(TypedDict):
    """Processes that use the host, as user `uid` sees them."""

    uid: int
    processes: list[ProcessReading]
    listeners: list[PortListener]
    unseen: list[str]


class LeaseHolder(TypedDict):
    """The run that holds a lease."""

    run: str
    user: str
    since: float
    is_ours: bool
    words: str


class LeasesReading(TypedDict):
    """Holders by device index and by port, both as text; free ones are absent."""

    devices: dict[str, LeaseHolder]
    ports: dict[str, LeaseHolder]


class FilesystemReading(TypedDict):
    """The file system of a directory, in bytes and counts; `refused` is why a file could not be written."""

    asked: str
    exists: bool
    mount: str
    size: int
    free: int
    inodes: int
    inodes_free: int
    read_only: bool
    refused: str


class ResourceLimit(TypedDict):
    """A resource limit; None is unlimited."""

    soft: int | None


class MemoryReading(TypedDict):
    """Memory in bytes."""

    total: int
    available: int


class KernelReading(TypedDict):
    """The kernel."""

    release: str
    machine: str


class ContainerReading(TypedDict):
    """Trial of a container of ranks, as our user finds it."""

    engine: str
    """Engine that a start would use; "" for none."""

    digest: str
    """Id of a named image, size of a file; "" for an image that is not there."""

    refused: str
    """Error of the trial; "" for none."""


class LoginReading(TypedDict):
    """User and home directory of a login."""

    user: str
    uid: int
    gid: int
    home_type: str


class TreeReading(TypedDict):
    """Path → hash of the code below a directory; `complete` is False beyond the bounds."""

    complete: bool
    files: dict[str, str]


class LibrariesReading(TypedDict):
    """Distributions beside an interpreter, and one digest of their records."""

    digest: str
    distributions: dict[str, str]


class InterfaceReading(TypedDict):
    """A network interface; None for values that its driver does not report."""

    mtu: int | None
    carrier: int | None
    speed: int | None
    state: str | None


class RouteReading(TypedDict, total=False):
    """Interface and source address towards an address; `why` where there is no route."""

    interface: str | None
    source: str | None
    why: str


class HostIdentity(TypedDict):
    """Names and numbers that identify a host."""

    hostname: str
    system: str
    """Distribution and its version; "" is unknown."""

    addresses: list[str]
    network: str


class CleanupReading(TypedDict):
    """Result of a cleanup on one node, one phrase per item."""

    removed: list[str]
    """Leftovers of runs that are over, their processes included."""

    ended: list[str]
    """Processes of one run, or that a person chose."""

    left: list[str]
    """Leftovers of runs that are over, or processes of one run, that could not be removed or ended."""

    survives: list[str]
    """Processes that a person chose and that could not be ended."""

    known: bool
    """The node has files or processes of the run, or may have removed the files for those of newer runs."""

    restarted: bool
    """The node was restarted since the run began there."""

    error: str
    """Reason why nothing could be looked at; "" without one."""
