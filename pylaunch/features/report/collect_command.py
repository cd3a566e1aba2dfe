"""`pylaunch collect`: everything about a run in one archive, for a bug report."""

import os
from pathlib import Path

import click

from pylaunch import features
from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.report import view
from pylaunch.features.report.collect import LEAST_LIMIT, LIMIT, CollectRequest, collect
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
    size = options.size("--limit", limit)
    if size < LEAST_LIMIT:
        raise UsageError(f"--limit {limit}: expected {shown_size(LEAST_LIMIT)} or more", hint="--limit 5MB")
    record = find_newest(run, inventory)
    file = output or output_file(f"pylaunch-{record.plan.run}.tar.gz")
    made = collect(CollectRequest(record, file, os.environ, features.measured, size), console.say)
    if as_json:
        document.show(view.as_json(made))
    else:
        view.show(made)
    return ExitCode.DONE
