"""`pylaunch fetch`: bring files of a run here from its nodes."""

from pathlib import Path
from typing import Any

import click

from pylaunch.errors import ExitCode, UsageError
from pylaunch.features.fetch.node_files import FetchRequest, FetchResult, FileResult, fetch
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import pylaunch
from pylaunch.model.text.quantity import shown_size
from pylaunch.model.text.sanitise import visible_line
from pylaunch.store.files import OUTPUT_DIRECTORY, output_file
from pylaunch.terminal import console, document, options
from pylaunch.terminal.flags.resolve_run import find, looks_like_run

DIRECTORY = "fetch-RUN"
"""Default directory, in the output directory."""

MOST_SHOWN = 20

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
    record = find(run, inventory, newest=True)
    target = directory or output_file(DIRECTORY.replace("RUN", record.plan.run))
    result = fetch(FetchRequest(record.plan, patterns, target.absolute(), **how), console.say)
    if as_json:
        document.show(as_data(result))
    else:
        show(result)
    if result.failed or result.of("failed"):
        return ExitCode.CLUSTER_NOT_READY
    return ExitCode.DIFFERENT if result.of("kept") or result.notes else ExitCode.DONE


def show(result: FetchResult) -> None:
    """Print files that were not fetched with reasons, nodes that did not answer, and the sum."""
    for host, why in result.failed.items():
        console.say(f"warning: {host}: {why}")
    for note in result.notes:
        console.say(f"warning: {note}")
    troubled = result.of("failed", "kept")
    for each in troubled[:MOST_SHOWN]:
        what = "not replaced" if each.status == "kept" else "not fetched"
        console.say(f"warning: {each.wanted.host}: {_path(each)}: {what}: {each.reason}")
    if len(troubled) > MOST_SHOWN:
        console.say(f"warning: and {len(troubled) - MOST_SHOWN} more")
    if result.of("kept"):
        console.say("hint: --to ANOTHER_DIRECTORY keeps both")
    planned, fetched = result.of("planned"), result.of("fetched")
    for each in planned:
        hosts = fold((each.wanted.host, *each.wanted.others))
        console.data(f"{hosts}: {_path(each)} ({shown_size(each.wanted.file.size)})")
    what, those = ("would be fetched", planned) if result.request.is_dry else ("fetched", fetched)
    size = shown_size(sum(each.wanted.file.size for each in those))
    present = len(result.of("present"))
    there = f", {present} here already" if present else ""
    console.say(
        f"{'1 file' if len(those) == 1 else f'{len(those)} files'} ({size}) {what}{there}: {result.request.directory}"
    )


def as_data(result: FetchResult) -> dict[str, object]:
    """Return the result as data."""
    return {
        "run": result.request.plan.run,
        "directory": str(result.request.directory),
        "files": [
            {
                "host": each.wanted.host,
                "same_on": list(each.wanted.others),
                "path": visible_line(each.wanted.file.path),
                "file": str(Path(*each.wanted.place)),
                "bytes": each.wanted.file.size,
                "status": each.status,
                "reason": each.reason or None,
            }
            for each in result.files
        ],
        "nodes": [{"host": host, "unreachable": result.failed.get(host)} for host in result.request.plan.cluster.names],
        "notes": list(result.notes),
    }


def _path(each: FileResult) -> str:
    return visible_line(each.wanted.file.path)
