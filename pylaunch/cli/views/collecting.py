"""All logs of a run in one directory of the controller: `<host>/<rank>.out` and `.err`, `<host>/launcher.*`."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

from pylaunch.cli import console
from pylaunch.errors import UsageError
from pylaunch.launch.connect.confine import LAUNCHER_STREAMS
from pylaunch.launch.existing.attach import LogQuery, read_logs
from pylaunch.launch.follow.run_follower import rank_streams
from pylaunch.model.run import Event, RunRecord
from pylaunch.model.size import shown_size
from pylaunch.model.usage import NodeUsage


class Collector:
    """A `launch.Watcher` that writes output into files. Raises UsageError where it cannot."""

    usage_every_s = 0.0

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.size = 0
        self.files: set[Path] = set()

    def event(self, event: Event) -> None:
        """The record has it already."""

    def output(self, host: str, stream: str, text: str, time: float) -> None:
        """Append to the file; the first time, anew."""
        path = self._directory / host / stream
        content = text.encode("utf-8", "surrogateescape")
        try:
            with _opened(self._directory, host, stream, is_new=path not in self.files) as file:
                file.write(content)
        except OSError as error:
            raise UsageError(f"--collect {self._directory}: {path} cannot be written: {error.strerror}") from None
        self.files.add(path)
        self.size += len(content)

    def usage(self, host: str, reading: NodeUsage) -> None:
        """Nobody asked."""

    def phase(self, text: str) -> None:
        """Say it: a node that cannot be reached, bytes that are gone."""
        console.say(text)


def _opened(directory: Path, host: str, stream: str, *, is_new: bool) -> IO[bytes]:
    """Open `directory`/`host`/`stream` for appending, empty if it `is_new`.

    Raises OSError where either name is not a plain one, or what is there is a link or no regular file: what is written
    comes from nodes and stays in `directory`.
    """
    for name in (host, stream):
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise OSError(errno.EINVAL, f"{name!r} is not a file name")
    (directory / host).mkdir(parents=True, exist_ok=True)
    within = os.open(directory / host, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(stream, flags, 0o666, dir_fd=within)
    finally:
        os.close(within)
    file = os.fdopen(descriptor, "ab")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    if is_new:
        os.ftruncate(descriptor, 0)
    return file


def collect(record: RunRecord, directory: Path) -> None:
    """Bring everything that the ranks and launchers of a run wrote until now. Raises UsageError where it cannot."""
    collector = Collector(directory)
    streams = [*rank_streams(record.plan), *LAUNCHER_STREAMS]
    read_logs(record, collector, LogQuery(record.plan.nodes, streams))
    console.say(f"collected {len(collector.files)} logs ({shown_size(collector.size)}) in {directory}")
