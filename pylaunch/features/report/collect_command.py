"""`pylaunch collect`: everything about a run in one archive, for a bug report."""

from pathlib import Path

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.report.collect import LEAST_LIMIT, LIMIT, collect
from pylaunch.model.text.size import shown_size
from pylaunch.store.output_directory import OUTPUT_DIRECTORY, output_file
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import find_newest

EXAMPLES = """\b
Examples:
  pylaunch collect
  pylaunch collect 7f3a -o broken-run.tar.gz
  pylaunch collect 7f3a --limit 5MB
"""


@click.command(epilog=EXAMPLES)
@options.run
@options.nodes_know
@options.output(f"Archive to write.  [default: {OUTPUT_DIRECTORY}/pylaunch-RUN.tar.gz]")
@click.option(
    "--limit",
    default=f"{LIMIT // 1_000_000}MB",
    show_default=True,
    metavar="SIZE",
    help="Bytes of all files before compression; of longer logs, the beginning and the end are taken.",
)
@options.as_json
def command(run: str | None, *, inventory: Path | None, output: Path | None, limit: str, as_json: bool) -> int:
    """Put everything about RUN (the newest one without) into one archive, with secrets masked.

    Its record, logs, versions, topology and environment of ranks, and the hosts as they are now. Hosts that do not
    answer are listed in the README.txt of the archive. Nothing is changed on any host.
    """
    size = options.size_option("--limit", limit)
    if size < LEAST_LIMIT:
        raise UsageError(f"--limit {limit}: expected {shown_size(LEAST_LIMIT)} or more", hint="--limit 5MB")
    record = find_newest(run, inventory)
    file = output or output_file(f"pylaunch-{record.plan.run}.tar.gz")
    made = collect(record, file, size)
    written = file.stat().st_size
    names, left_out = sorted(made.texts), made.left_out
    if as_json:
        found = {"archive": str(file), "bytes": written, "files": names, "left_out": left_out}
        document.show({"run": record.plan.run, **found})
        return ExitCode.DONE
    for line in left_out:
        console.say(f"left out: {line}")
    console.data(str(file))
    console.say(f"run {record.plan.run}: {len(names)} files, {shown_size(written)}, secrets masked")
    return ExitCode.DONE
