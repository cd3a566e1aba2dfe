"""`start --report`: the report of a start that failed."""

from pathlib import Path

from pylaunch.errors import UsageError
from pylaunch.features.report import NAMED_BY_RUN
from pylaunch.model.outcome import Status
from pylaunch.store import runs
from pylaunch.store.new_file import refuse_existing
from pylaunch.store.output_directory import output_file
from pylaunch.terminal import console, hints
from pylaunch.terminal.doors import RunEnding, RunObserver
from pylaunch.terminal.late_import import imported


def observer(value: str) -> RunObserver:
    """Return the writer of the report to `value`, or to a file that is named by the run.

    Raises UsageError for a file that exists, and for a word that is probably the script.
    """
    file = None if value == NAMED_BY_RUN else Path(value).absolute()
    if file is not None and file.suffix != ".html":
        raise UsageError(f"--report {value}: expected a name that ends in .html", hint="--report -- SCRIPT")
    if file is not None:
        refuse_existing(file, hint="--report=ANOTHER.html")

    return _ReportWriter(file)


class _ReportWriter(RunObserver):
    """Writes the report of the last attempt of a run that failed."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def at_end(self, ending: RunEnding) -> None:
        """Write the report; a failure to write is a warning, as the run has ended."""
        if ending.outcome is not None and ending.outcome.status is not Status.FAILED:
            return
        write = imported("pylaunch.features.report.write")  # Jinja, for HTML, takes 0.03 s.
        try:
            record = runs.read(runs.attempts(ending.run)[-1])
            part, file = record.plan.job.part, self._file
            if part is not None and file is not None:
                file = file.with_stem(f"{file.stem}-{part.name}")  # Another role may fail, too.
            named = file or output_file(f"pylaunch-{record.plan.run}.html")
            write.write_report(record, named, hints.of_run(record.plan))
        except UsageError as error:
            console.say(f"warning: no report: {error.message}")
        else:
            console.say(f"report: {named}")
            ending.files.append(named)
