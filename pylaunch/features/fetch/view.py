"""Result of a fetch: lines and JSON."""

from pathlib import Path

from pylaunch.features.fetch.node_files import FetchResult, FileResult
from pylaunch.model.hostset import fold
from pylaunch.model.text.sanitise import visible_line
from pylaunch.model.text.size import shown_size
from pylaunch.terminal import console

MOST_SHOWN = 20


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
        console.say("hint: --to ANOTHER_DIRECTORY keeps both, --replace replaces the files here")
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


def as_json(result: FetchResult) -> dict[str, object]:
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
