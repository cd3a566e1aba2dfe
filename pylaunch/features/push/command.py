"""`pylaunch push`: copies of files on every host, passed on from host to host."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.features.push.payload import Payload, read_payload
from pylaunch.features.push.progress import PushProgress, PushResult
from pylaunch.features.push.spread import push
from pylaunch.inventory import load_cluster
from pylaunch.model.diagnosis.host_errors import error_lines, of_hosts
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.quantity import shown_size
from pylaunch.model.text.sanitise import visible_line
from pylaunch.terminal import console, document, options

EXAMPLES = """\b
Examples:
  pylaunch push -i cluster.ini model.safetensors /data/models/
  pylaunch push -i cluster.ini ./dataset /data/cifar10
  pylaunch push -i cluster.ini --limit-rate 50MB *.sqsh /var/tmp/images/
"""


@click.command(epilog=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="FILE|DIR… DEST")
@options.inventory
@options.limit
@options.limit_rate("Bytes per second that this machine, and each host, sends: 50MB.")
@options.as_json
def command(words: tuple[str, ...], inventory: Path | None, limit: str | None, **given: Any) -> int:
    """Copy files and directories to every host. They leave this machine about once: hosts pass pieces on to each other.

    DEST is a directory if it ends with / or there are several sources, otherwise the path of the copy. Files replace
    those of the same name at the end, all at once for each file; other files in a directory stay. What a host has
    already is not sent. After an interruption, the same command sends the rest.
    """
    rate = given["limit_rate"]
    *sources, destination = words
    if not sources:
        raise UsageError(f"{words[0]}: no DEST", hint=f"pylaunch push {quoted(words)} /data/")
    cluster = load_cluster(inventory, limit=limit)
    with _following(cluster.names) as on_progress:
        try:
            payload = read_payload([Path(source) for source in sources], destination)
            result = push(cluster, payload, rate=rate, on_progress=on_progress)
        except KeyboardInterrupt:
            console.say("push interrupted: hosts keep the pieces that they have; the same command sends the rest")
            raise
    if given["as_json"]:
        document.show(_as_data(payload, result))
    elif result.hosts:
        _show(payload, result)
    if failed := [name for name, received in result.hosts.items() if received.error is not None]:
        what = f"{fold(failed)}: {'do' if len(failed) > 1 else 'does'} not have the files"
        each = of_hosts({name: result.hosts[name].hint for name in failed})
        reasons = {name: str(result.hosts[name].error) for name in failed}
        raise ClusterNotReadyError(what, evidence=error_lines(cluster.hosts, reasons), hint="; ".join(each) or None)
    return ExitCode.DONE


_MOST_FILES_SHOWN = 1000
FIRST_LINE_S = 2.0
LINE_S = 10.0
"""Between two lines of progress where they cannot be redrawn."""


@contextlib.contextmanager
def _following(hosts: Sequence[str]) -> Iterator[Callable[[PushProgress], None]]:
    """Show the progress: one line that changes on a terminal, otherwise a line now and then."""
    shown, next_s = [f"push: reading files for {fold(hosts)}"], FIRST_LINE_S
    is_drawn = console.is_drawable()

    def on_progress(progress: PushProgress) -> None:
        nonlocal next_s
        shown[0] = f"push: {progress.line}"
        if not is_drawn and progress.seconds >= next_s:
            next_s = progress.seconds + LINE_S
            console.say(shown[0])

    with console.drawn(lambda: shown, 0.5) if is_drawn else contextlib.nullcontext():
        yield on_progress


def _show(payload: Payload, result: PushResult) -> None:
    """Print which hosts have the files, and what this machine sent."""
    done = {name: received for name, received in result.hosts.items() if received.error is None}
    if done:
        many = f"{len(payload.files)} files" if len(payload.files) != 1 else visible_line(payload.files[0].path)
        proof = f", sha256 {payload.files[0].digest}" if len(payload.files) == 1 else ", sha256 of every file verified"
        slowest = max(received.seconds for received in done.values())
        console.say(f"{fold(done)}: {many} ({shown_size(payload.size)}{proof}) after {slowest:.1f} s")
    missing = sum(payload.size - received.had for received in done.values())
    sent = sum(received.sent for received in result.hosts.values())
    console.say(f"this machine sent {shown_size(sent)}; the hosts lacked {shown_size(missing)}")
    for line in result.remarks:
        console.say(line)


def _as_data(payload: Payload, result: PushResult) -> dict[str, object]:
    """Return the content of the JSON document."""
    return {
        "size": payload.size,
        "files": [
            {"path": visible_line(file.path), "size": file.size, "sha256": file.digest}
            for file in payload.files[:_MOST_FILES_SHOWN]
        ],
        "seconds": round(result.seconds, 3),
        "hosts": [
            {
                "host": name,
                "unreachable": received.error if received.is_unreachable else None,
                "refused": None if received.is_unreachable else received.error,
                "had": received.had,
                "from_controller": received.sent,
                "seconds": round(received.seconds, 3),
            }
            for name, received in result.hosts.items()
        ],
        "wrong_bytes": [{"host": name, "reported_by": list(by)} for name, by in result.wrong.items()],
    }
