"""`start --fetch`: bring files here when the run has ended."""

from collections.abc import Sequence

from pylaunch.errors import PylaunchError
from pylaunch.features.fetch import DIRECTORY, view
from pylaunch.features.fetch.choice import refuse_patterns
from pylaunch.features.fetch.work import FetchRequest, fetch
from pylaunch.model.outcome import Status
from pylaunch.store import runs
from pylaunch.store.output_directory import output_file
from pylaunch.terminal import console
from pylaunch.terminal.doors import RunEnding, RunObserver


def observer(patterns: Sequence[str]) -> RunObserver:
    """Return the observer that fetches `patterns` at the end. Raises UsageError for a pattern."""
    refuse_patterns(patterns)
    return _FetchAtEnd(patterns)


class _FetchAtEnd(RunObserver):
    """Fetches the files of a run whose ranks ran, also of one that failed."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns

    def at_end(self, ending: RunEnding) -> None:
        """Fetch from the nodes of the last attempt; a failure is a warning, as the run has ended."""
        is_refused = ending.outcome is None or ending.outcome.status is Status.REFUSED
        if is_refused or ending.error is not None:  # An error ended it before its release.
            return
        try:
            plan = runs.read(runs.attempts(ending.run)[-1]).plan
            directory = output_file(DIRECTORY.replace("RUN", plan.run))
            result = fetch(FetchRequest(plan, self._patterns, directory), console.say)
        except PylaunchError as error:
            console.say(f"warning: --fetch: {error.message}")
        else:
            view.show(result)
            ending.files.append(directory)
