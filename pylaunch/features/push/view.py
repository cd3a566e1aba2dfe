"""Lines and JSON of `push`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from pylaunch.broadcast.payload import Payload
from pylaunch.broadcast.progress import BroadcastResult, Progress, SourceProgress, lines_of_progress
from pylaunch.model.hostset import alike, fold
from pylaunch.model.text.sanitise import visible_line
from pylaunch.model.text.size import shown_size
from pylaunch.terminal import console
from pylaunch.terminal.live_area import LiveArea

MOST_FILES_SHOWN = 1000


@contextlib.contextmanager
def following(hosts: Sequence[str]) -> Iterator[Callable[[Progress], None]]:
    """Show the progress: one line that changes on a terminal, otherwise a line now and then."""
    shown = [f"push: reading files for {fold(hosts)}"]

    def redraw(progress: Progress) -> None:
        shown[0] = f"push: {progress.line}"

    if not console.is_drawable():
        of_pieces, of_source = (lines_of_progress(lambda line: console.say(f"push: {line}")) for _ in range(2))
        yield lambda progress: (of_source if isinstance(progress, SourceProgress) else of_pieces)(progress)
        return
    with LiveArea(lambda: shown, 0.5):
        yield redraw


def show(payload: Payload, result: BroadcastResult, source: str | None) -> None:
    """Print which hosts have the files, and what was sent by this machine, or by the node `source`."""
    done = {name: received for name, received in result.hosts.items() if received.error is None}
    if done:
        many = f"{len(payload.files)} files" if len(payload.files) != 1 else visible_line(payload.files[0].path)
        proof = f", sha256 {payload.files[0].digest}" if len(payload.files) == 1 else ", sha256 of every file verified"
        as_there = f", as {source} has it" if source is not None else ""
        slowest = max(received.seconds for received in done.values())
        console.say(f"{fold(done)}: {many} ({shown_size(payload.size)}{proof}{as_there}) after {slowest:.1f} s")
    missing = sum(payload.size - received.had for received in done.values())
    sent = sum(received.sent for received in result.hosts.values())
    console.say(f"{source or 'this machine'} sent {shown_size(sent)}; the hosts lacked {shown_size(missing)}")
    for line in result.remarks:
        console.say(line)


def failures(result: BroadcastResult) -> list[str]:
    """Return why hosts do not have the files, equal reasons once."""
    reasons = {name: [received.error] for name, received in result.hosts.items() if received.error is not None}
    return [f"{names}: {reason}" for names, reason in alike(reasons)]


def as_data(payload: Payload, result: BroadcastResult, source: str | None) -> dict[str, object]:
    """Return the content of the JSON document."""
    return {
        "size": payload.size,
        "files": [
            {"path": visible_line(file.path), "size": file.size, "sha256": file.digest}
            for file in payload.files[:MOST_FILES_SHOWN]
        ],
        "source": source,
        "seconds": round(result.seconds, 3),
        "hosts": [
            {
                "host": name,
                "unreachable": received.error if received.is_unreachable else None,
                "refused": None if received.is_unreachable else received.error,
                "had": received.had,
                "from_controller": received.sent if source is None else 0,
                "seconds": round(received.seconds, 3),
            }
            for name, received in result.hosts.items()
        ],
        "wrong_bytes": [{"host": name, "reported_by": list(by)} for name, by in result.wrong.items()],
    }
