"""`pylaunch report`: a run as one HTML file that opens offline."""

import os
import time
from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.features.report.page import page
from pylaunch.inventory.load import known_secrets
from pylaunch.model.text.quantity import shown_size
from pylaunch.model.text.redaction import Redaction
from pylaunch.store.files import OUTPUT_DIRECTORY, new_file, output_file, refuse_existing
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.flags.resolve_run import find_each, refuse_several

EXAMPLES = """\b
Examples:
  pylaunch report
  pylaunch report 7f3a -o why.html
"""


@click.command(epilog=EXAMPLES)
@options.run
@options.nodes_know
@options.output(f"File to write.  [default: {OUTPUT_DIRECTORY}/pylaunch-RUN.html]")
@options.as_json
def command(run: str | None, inventory: Path | None, output: Path | None, *, as_json: bool) -> int:
    """Write RUN (the newest one without) as one HTML file: why it failed, last lines, timeline.

    The file needs no network and no JavaScript. Secrets are masked. RUN may be a job of several roles: a file for each
    of its runs.
    """
    records = find_each(run, inventory, newest=True)
    if output is not None:
        refuse_several(records, "--output", str(output))
    found = []
    for record in records:
        file = output or output_file(f"pylaunch-{record.plan.run}.html")
        refuse_existing(file)
        mask = Redaction(known_secrets(record.plan, os.environ))
        data = page(record, time.time(), mask.hide, hints.of_run(record.plan, for_others=True)).encode(errors="replace")
        with new_file(file) as out:
            out.write(data)
        found.append({"run": record.plan.run, "file": str(file), "bytes": len(data)})
        if not as_json:
            console.data(str(file))
            console.say(f"run {record.plan.run}: {shown_size(len(data))}, secrets masked")
    document.show({"runs": found})
    return ExitCode.DONE
