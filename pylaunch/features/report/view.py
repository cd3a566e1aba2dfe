"""Files about a run, an archive or a report: the path on stdout, and what the file lacks."""

from pylaunch.features.report.collect import RunArchive
from pylaunch.features.report.write import ReportFile
from pylaunch.model.text.size import shown_size
from pylaunch.terminal import console


def show(made: RunArchive) -> None:
    """Print the path, the size and what was left out."""
    for line in made.left_out:
        console.say(f"left out: {line}")
    console.data(str(made.file))
    console.say(f"run {made.run}: {len(made.names)} files, {shown_size(made.size)}, secrets masked")


def as_json(made: RunArchive) -> dict[str, object]:
    """Return the archive as data."""
    return {
        "run": made.run,
        "archive": str(made.file),
        "bytes": made.size,
        "files": list(made.names),
        "left_out": list(made.left_out),
    }


def show_report(made: ReportFile) -> None:
    """Print the path of a report, its size and what is missing."""
    for line in made.missing:
        console.say(f"missing: {line}")
    console.data(str(made.file))
    console.say(f"run {made.run}: report of {shown_size(made.size)}, secrets masked")


def report_as_json(made: ReportFile) -> dict[str, object]:
    """Return a report as data."""
    return {"run": made.run, "report": str(made.file), "bytes": made.size, "missing": list(made.missing)}
