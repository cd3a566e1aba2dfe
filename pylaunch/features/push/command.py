"""`pylaunch push`: copies of files on every host, passed on from host to host."""

import contextlib
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from pylaunch.broadcast.node_source import NodeFiles
from pylaunch.broadcast.payload import Payload, copies_of, read_payload
from pylaunch.broadcast.progress import BroadcastResult, Progress, lines_of_progress
from pylaunch.broadcast.spread import broadcast, broadcast_from
from pylaunch.errors import ClusterNotReadyError, ExitCode, UsageError
from pylaunch.inventory import load_cluster
from pylaunch.model.cluster import Cluster
from pylaunch.model.diagnosis.host_errors import error_lines, of_hosts
from pylaunch.model.hostset import fold
from pylaunch.model.text.argv import quoted
from pylaunch.model.text.sanitise import visible_line
from pylaunch.model.text.size import shown_size
from pylaunch.terminal import console, document, options

EXAMPLES = """\b
Examples:
  pylaunch push -i cluster.ini model.safetensors /data/models/
  pylaunch push -i cluster.ini ./dataset /data/cifar10
  pylaunch push -i cluster.ini --limit-rate 50MB *.sqsh /var/tmp/images/
  pylaunch push -i cluster.ini n1:/data/model /data/model
"""


@click.command(epilog=EXAMPLES)
@click.argument("words", nargs=-1, required=True, metavar="[NODE:]FILE|DIR… DEST")
@options.inventory
@options.limit
@options.limit_rate("Bytes per second that this machine, and each host, sends: 50MB.")
@options.as_json
def command(words: tuple[str, ...], inventory: Path | None, limit: str | None, **given: Any) -> int:
    """Copy files and directories to every host. They leave this machine about once: hosts pass pieces on to each other.
    NODE:PATH is on NODE, and leaves it about once.

    DEST is a directory if it ends with / or there are several sources, otherwise the path of the copy. Files replace
    those of the same name at the end, all at once for each file; other files in a directory stay. What a host has
    already is not sent. After an interruption, the same command sends the rest.
    """
    rate = given["limit_rate"]
    *sources, destination = words
    if not sources:
        raise UsageError(f"{words[0]}: no DEST", hint=f"pylaunch push {quoted(words)} /data/")
    node = files_of_node(sources, lambda: load_cluster(inventory))
    cluster = load_cluster(inventory, limit=limit)
    with _following(cluster.names) as on_progress:
        try:
            if node is not None:
                others = without(node, cluster, destination)
                payload, result = broadcast_from(node, others, destination, rate=rate, on_progress=on_progress)
            else:
                payload = read_payload([Path(source) for source in sources], destination)
                result = broadcast(cluster, payload, rate=rate, on_progress=on_progress)
        except KeyboardInterrupt:
            console.say("push interrupted: hosts keep the pieces that they have; the same command sends the rest")
            raise
    source = None if node is None else node.host.name
    if given["as_json"]:
        document.show(_as_data(payload, result, source))
    elif result.hosts:
        _show(payload, result, source)
    if failed := [name for name, received in result.hosts.items() if received.error is not None]:
        what = f"{fold(failed)}: {'do' if len(failed) > 1 else 'does'} not have the files"
        each = of_hosts({name: result.hosts[name].hint for name in failed})
        reasons = {name: str(result.hosts[name].error) for name in failed}
        raise ClusterNotReadyError(what, evidence=error_lines(cluster.hosts, reasons), hint="; ".join(each) or None)
    return ExitCode.DONE


_MOST_FILES_SHOWN = 1000


@contextlib.contextmanager
def _following(hosts: Sequence[str]) -> Iterator[Callable[[Progress], None]]:
    """Show the progress: one line that changes on a terminal, otherwise a line now and then."""
    shown = [f"push: reading files for {fold(hosts)}"]

    def redraw(progress: Progress) -> None:
        shown[0] = f"push: {progress.line}"

    if not console.is_drawable():
        yield lines_of_progress(lambda line: console.say(f"push: {line}"))
        return
    with console.drawn(lambda: shown, 0.5):
        yield redraw


def _show(payload: Payload, result: BroadcastResult, source: str | None) -> None:
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


def _as_data(payload: Payload, result: BroadcastResult, source: str | None) -> dict[str, object]:
    """Return the content of the JSON document."""
    return {
        "size": payload.size,
        "files": [
            {"path": visible_line(file.path), "size": file.size, "sha256": file.digest}
            for file in payload.files[:_MOST_FILES_SHOWN]
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


def files_of_node(sources: Sequence[str], inventory: Callable[[], Cluster]) -> NodeFiles | None:
    """Return the node of `NODE:PATH…` with the paths; None for files of this machine, also with a colon in the name.
    Raises UsageError."""
    there = [source.partition(":")[::2] for source in sources if is_on_node(source)]
    if not there:
        return None
    names = {name for name, _ in there}
    if len(names) > 1 or len(there) < len(sources):
        raise UsageError("the sources are in several places", hint="one push for this machine and each node")
    name = names.pop()
    cluster = one_of(inventory(), name)
    if not all(path for _, path in there):
        raise UsageError(f"{name}: no path on the node", hint=f"pylaunch push {name}:/data/model /data/model")
    return NodeFiles(cluster[name], cluster.known_hosts, tuple(path for _, path in there))


def one_of(cluster: Cluster, name: str) -> Cluster:
    """Return `cluster` reduced to one node. Raises UsageError."""
    if name not in cluster.names:
        hint = f"./{name}:… would be a file of this machine"
        raise UsageError(f"{name}: not in the inventory, which has {fold(cluster.names)}", hint=hint)
    return cluster.only((name,))


def is_on_node(source: str) -> bool:
    """Return whether there is a colon before the first slash, as for scp, and no such file here."""
    return ":" in source.partition("/")[0] and not os.path.lexists(source)


def without(node: NodeFiles, cluster: Cluster, destination: str) -> Cluster:
    """Return `cluster` without the node if the files are at their destination there. Raises UsageError if none is
    left."""
    base, names = copies_of([posixpath.basename(posixpath.normpath(path)) for path in node.paths], destination)
    copies = [posixpath.normpath(posixpath.join(base, name)) for name in names]
    if copies != [posixpath.normpath(path) for path in node.paths]:
        return cluster
    others = [name for name in cluster.names if name != node.host.name]
    if not others:
        what = f"{node.host.name} has {' and '.join(node.paths)} already"
        raise UsageError(what, hint="--limit selects the hosts that get the files")
    return cluster.only(others)
