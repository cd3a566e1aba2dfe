"""`pylaunch report`: a run as one HTML file that opens offline, or as an archive with its logs."""

import os
import time
from pathlib import Path
from typing import Any

import click

from pylaunch.errors import ExitCode
from pylaunch.features.report.archive import write_archive
from pylaunch.features.report.page import page
from pylaunch.inventory.load import known_secrets
from pylaunch.model.run import RunRecord
from pylaunch.model.text.quantity import shown_size
from pylaunch.model.text.redaction import Redaction
from pylaunch.store.files import OUTPUT_DIRECTORY, new_file, output_file, refuse_existing
from pylaunch.terminal import console, document, hints, options
from pylaunch.terminal.flags.resolve_run import find_each_newest

EXAMPLES = """\b
Examples:
  pylaunch report
  pylaunch report 7f3a -o why.html
  pylaunch report 7f3a --archive
"""


@click.command(epilog=EXAMPLES)
@options.run
@options.role
@options.nodes_know
@click.option("--archive", is_flag=True, help="Write an archive: page, record and logs.")
@options.output(f"File to write.  [default: {OUTPUT_DIRECTORY}/pylaunch-RUN.html, or .tar.gz for an archive]")
@options.as_json
def command(run: str | None, role: str | None, inventory: Path | None, output: Path | None, **asked: bool) -> int:
    """Write RUN (the newest one without) as one HTML file: why it failed, last lines, timeline.

    The file needs no network and no JavaScript. Secrets are masked. The archive has logs from the nodes that
    answer; what is missing is listed. RUN may be a job of several roles: a file for each of its runs.
    """
    named = find_each_newest(run, role, inventory)
    if output is not None:
        named.refuse_several("--output", str(output))
    found = []
    for record in named.records:
        result = _archive(record, output) if asked["archive"] else _page(record, output)
        found.append({"run": record.plan.run, **result})
        if not asked["as_json"]:
            for line in result["missing"]:
                console.say(f"missing: {line}")
            console.data(str(result["file"]))
            console.say(f"run {record.plan.run}: {shown_size(result['bytes'])}, secrets masked")
    document.show(found[0] if named.job is None else {"job": named.job.job, "runs": found})
    return ExitCode.DONE


def _page(record: RunRecord, output: Path | None) -> dict[str, Any]:
    file = output or output_file(f"pylaunch-{record.plan.run}.html")
    refuse_existing(file)
    mask = Redaction(known_secrets(record.plan, os.environ))
    data = page(record, time.time(), mask.hide, hints.of_run(record.plan)).encode("utf-8", "replace")
    with new_file(file) as out:
        out.write(data)
    return {"file": str(file), "bytes": len(data), "missing": []}


def _archive(record: RunRecord, output: Path | None) -> dict[str, Any]:
    file = output or output_file(f"pylaunch-{record.plan.run}.tar.gz")
    made = write_archive(record, file)
    return {"file": str(file), "bytes": file.stat().st_size, "files": sorted(made.texts), "missing": made.missing}
