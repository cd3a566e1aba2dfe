"""`pylaunch fetch`: bring files of a run here from its nodes."""

from pathlib import Path
from typing import Any

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.fetch import view
from pylaunch.features.fetch.node_files import FetchRequest, fetch
from pylaunch.model.text.argv import pylaunch
from pylaunch.store.files import OUTPUT_DIRECTORY, output_file
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import find_newest, looks_like_run

DIRECTORY = "fetch-RUN"
"""Default directory, in the output directory."""

EXAMPLES = """\b
Examples:
  pylaunch fetch 'ckpt/*.pt'
  pylaunch fetch 7f3a '**/*.safetensors' metrics.json --to results
  pylaunch fetch 7f3a '**' --dry-run
"""


@click.command(epilog=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="[RUN] PATTERN...")
@options.nodes_know
@click.option(
    "--to",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help=f"Directory for the files.  [default: {OUTPUT_DIRECTORY}/{DIRECTORY}]",
)
@click.option("--replace", "replaces", is_flag=True, help="Replace files in DIR that differ.")
@click.option("--dry-run", "is_dry", is_flag=True, help="List what would be fetched; nothing is written.")
@options.as_json
def command(
    words: tuple[str, ...], *, inventory: Path | None, directory: Path | None, as_json: bool, **how: Any
) -> int:
    """Bring files in the working directory of RUN that match a PATTERN (quoted: * ? [a-z] **) here from all nodes.

    Without RUN, those of the newest one. A file of a shared file system is brought once; other files of the same name
    get a directory for each host. A file here that differs is kept.
    """
    run, patterns = (words[0], words[1:]) if looks_like_run(words[0]) else (None, words)
    if not patterns:
        raise UsageError(f"no PATTERN after the run {run}", hint=pylaunch("fetch", words[0], "ckpt/*.pt"))
    record = find_newest(run, inventory)
    target = directory or output_file(DIRECTORY.replace("RUN", record.plan.run))
    result = fetch(FetchRequest(record.plan, patterns, target.absolute(), **how), console.say)
    if as_json:
        document.show(view.as_json(result))
    else:
        view.show(result)
    if result.failed or result.of("failed"):
        return ExitCode.CLUSTER_NOT_READY
    return ExitCode.DIFFERENT if result.of("kept") or result.notes else ExitCode.DONE
