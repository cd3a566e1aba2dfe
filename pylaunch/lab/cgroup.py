"""A node's cgroup: every process of the node is in it, so that it is found, frozen and ended without a name or a guess.

The directories are made under the cgroup pylaunch itself is in, on the version 2 hierarchy, the only one nodes see.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pylaunch.errors import LabError
from pylaunch.lab.waiting import reached

END_TIMEOUT_S = 10.0


def hierarchy(mountinfo: str) -> Path | None:
    """Where the version 2 hierarchy is mounted, according to /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup2 "):
            return Path(before.split()[4])
    return None


def own_directory(mountinfo: str, own: str) -> Path | None:
    """The directory of the cgroup that /proc/self/cgroup (`own`) names; None without a version 2 hierarchy."""
    root = hierarchy(mountinfo)
    if root is None:
        return None
    path = next((line[3:] for line in own.splitlines() if line.startswith("0::")), "/")
    # A path that starts with /.. lies outside of our cgroup namespace and cannot be reached.
    return root if path.startswith("/..") else root / path.lstrip("/")


def here() -> Path | None:
    """The directory of our own cgroup."""
    return own_directory(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())


@dataclass(frozen=True)
class Cgroup:
    """A cgroup and all that is below it."""

    directory: Path

    @property
    def is_populated(self) -> bool:
        """A process is alive in it."""
        return self._event("populated")

    @property
    def is_frozen(self) -> bool:
        """None of its processes gets to run."""
        return self._event("frozen")

    def processes(self) -> list[int]:
        """Process ids, the whole tree."""
        pids: list[int] = []
        for directory in self._tree():
            with contextlib.suppress(OSError):
                pids += [int(line) for line in (directory / "cgroup.procs").read_text().split()]
        return pids

    def freeze(self) -> None:
        """Stop every process where it is. Raises LabError when the kernel does not manage to."""
        self._freeze("1")

    def thaw(self) -> None:
        """Let every process run on."""
        self._freeze("0")

    def end(self) -> None:
        """Kill every process, frozen ones too, and remove the tree. Nothing happens when there is none.

        Raises LabError when something is still there after END_TIMEOUT_S.
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
        # A node that was about to start can join after it was found empty: killing goes on until the cgroup is removed.
        self._kill()
        for directory in reversed(self._tree()):
            with contextlib.suppress(OSError):
                directory.rmdir()
        return not self.directory.exists()

    def _tree(self) -> list[Path]:
        """The directory and all below it, parents first. A node's services come and go while it is read:
        what has gone by then is passed over, which Path.rglob does not do.
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
