"""A node's cgroup: it contains every process of the node, to find, freeze and kill them without matching names.

The directories are below the cgroup of pylaunch itself, in the version 2 hierarchy, the only one that nodes see.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from lab.nodes.waiting import reached
from pylaunch.base.dataclass import dataclass
from pylaunch.errors import LabError

END_TIMEOUT_S = 60.0


def hierarchy(mountinfo: str) -> Path | None:
    """Return the mount point of the version 2 hierarchy, from the text of /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return None


def own_directory(mountinfo: str, own: str) -> Path | None:
    """Return the directory of the cgroup that /proc/self/cgroup (`own`) names; None without a version 2 hierarchy."""
    root = hierarchy(mountinfo)
    if root is None:
        return None
    path = next((line[3:] for line in own.splitlines() if line.startswith("0::")), "/")
    # A path that starts with /.. lies outside of our cgroup namespace and cannot be reached.
    return root if path.startswith("/..") else root / path.lstrip("/")


def here() -> Path | None:
    """Return the directory of this process's cgroup."""
    return own_directory(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


@dataclass(frozen=True)
class Cgroup:
    """A cgroup and its descendants."""

    directory: Path

    @property
    def is_populated(self) -> bool:
        """A process is alive in the cgroup."""
        return self._event("populated")

    @property
    def is_frozen(self) -> bool:
        """All of its processes are stopped."""
        return self._event("frozen")

    def processes(self) -> list[int]:
        """Return the process ids of the whole tree."""
        pids: list[int] = []
        for directory in self._tree():
            with contextlib.suppress(OSError):
                pids += [int(line) for line in (directory / "cgroup.procs").read_text().split()]
        return pids

    def freeze(self) -> None:
        """Stop every process. Raises LabError when the kernel does not succeed in time."""
        self._freeze("1")

    def thaw(self) -> None:
        """Continue every process."""
        self._freeze("0")

    def end(self) -> None:
        """Kill every process, frozen ones too, and remove the tree, if there is one.

        Raises LabError when a process or directory remains after END_TIMEOUT_S.
        """
        if not self.directory.exists():
            return
        try:
            self._until(self._gone, "processes of a node do not end")
        except LabError as refused:
            if self.is_populated:
                raise
            raise LabError(f"cgroup cannot be removed: {self.directory}", hint=refused.hint) from refused

    def _gone(self) -> bool:
        # A starting node can join after the cgroup was found empty: repeat until the cgroup is removed.
        self._kill()
        for directory in reversed(self._tree()):
            with contextlib.suppress(OSError):
                directory.rmdir()
        return not self.directory.exists()

    def _tree(self) -> list[Path]:
        """Return the directory and its descendants, parents first.

        Services of the node start and end meanwhile: os.walk skips directories that vanish, Path.rglob raises.
        """
        return [Path(here) for here, _, _ in os.walk(self.directory)]

    def _kill(self) -> None:
        if not self.is_populated:
            return
        at_once = self.directory / "cgroup.kill"
        if at_once.exists():
            at_once.write_text("1")
            return
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _freeze(self, value: str) -> None:
        (self.directory / "cgroup.freeze").write_text(value)
        self._until(lambda: self.is_frozen is (value == "1"), "cgroup does not freeze or thaw")

    def _until(self, done: Callable[[], bool], otherwise: str) -> None:
        if not reached(done, END_TIMEOUT_S):
            raise LabError(
                f"{otherwise}: {self.directory}", evidence=[f"processes: {self.processes()}"], hint="dmesg | tail"
            )

    def _event(self, name: str) -> bool:
        try:
            events = (self.directory / "cgroup.events").read_text()
        except FileNotFoundError:
            return False
        return f"{name} 1" in events.splitlines()
