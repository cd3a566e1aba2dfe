"""Add the attempts of a run to the history when it has ended."""

from pylaunch.errors import UsageError
from pylaunch.store import runs
from pylaunch.terminal import console
from pylaunch.terminal.doors import RunEnding, RunObserver
from pylaunch.terminal.late_import import imported


def observer() -> RunObserver:
    """Return the observer of every run."""
    return _HistoryWriter()


class _HistoryWriter(RunObserver):
    """Writes rows; a failure is a warning, as the run has ended."""

    def at_end(self, ending: RunEnding) -> None:
        """Add all attempts of the run."""
        try:
            imported("pylaunch.features.history.database").add(runs.attempts(ending.run), lambda text: None)
        except UsageError as error:
            console.say(f"warning: {error.message}")
