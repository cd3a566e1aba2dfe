"""All logs of a run in one directory of the controller: `<host>/<rank>.out` and `.err`, `<host>/launcher.*`."""

from __future__ import annotations

from pathlib import Path

from pylaunch.cli import console
from pylaunch.errors import UsageError
from pylaunch.launch.attach import LAUNCHER_STREAMS, Reading, read_logs
from pylaunch.launch.follow import rank_streams
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
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab" if path in self.files else "wb") as file:
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


def collect(record: RunRecord, directory: Path) -> None:
    """Bring everything that the ranks and launchers of a run wrote until now. Raises UsageError where it cannot."""
    collector = Collector(directory)
    streams = [*rank_streams(record.plan), *LAUNCHER_STREAMS]
    read_logs(record, collector, Reading(record.plan.nodes, streams))
    console.say(f"collected {len(collector.files)} logs ({shown_size(collector.size)}) in {directory}")
