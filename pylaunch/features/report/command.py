"""`pylaunch report`: a run as one HTML file that opens offline."""

from pathlib import Path

import click

from pylaunch.errors import ExitCode
from pylaunch.features.report.write import write_report
from pylaunch.model.text.size import shown_size
from pylaunch.store.output_directory import OUTPUT_DIRECTORY, output_file
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.flags.resolve_run import find_each, find_newest

EXAMPLES = """\b
Examples:
  pylaunch report
  pylaunch report 7f3a -o why.html
  pylaunch start -i cluster.ini --report -- train.py
"""


@click.command(epilog=EXAMPLES)
@options.run
@options.role
@options.nodes_know
@options.output(f"File to write.  [default: {OUTPUT_DIRECTORY}/pylaunch-RUN.html]")
@options.as_json
def command(run: str | None, *, role: str | None, inventory: Path | None, output: Path | None, as_json: bool) -> int:
    """Write RUN (the newest one without) as one HTML file: why it failed, timeline, stacks, collectives, last lines.

    The file needs no network and no JavaScript. Secrets are masked. The last lines of ranks are read from the
    nodes that answer. RUN may be a job of several roles: a file for each of its runs.
    """
    named = find_each(run, role, inventory, find_newest)
    if output is not None:
        named.refuse_several("--output", str(output))
    found = []
    for record in named.records:
        file = output or output_file(f"pylaunch-{record.plan.run}.html")
        size, missing = write_report(record, file, hints.of_run(record.plan))
        found.append({"run": record.plan.run, "report": str(file), "bytes": size, "missing": list(missing)})
        if not as_json:
            for line in missing:
                console.say(f"missing: {line}")
            console.data(str(file))
            console.say(f"run {record.plan.run}: report of {shown_size(size)}, secrets masked")
    document.show(found[0] if named.job is None else {"job": named.job.job, "runs": found})
    return ExitCode.DONE
