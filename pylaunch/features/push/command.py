"""`pylaunch push`: copies of files on every host, passed on from host to host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pylaunch.broadcast.payload import read_payload
from pylaunch.broadcast.spread import broadcast, broadcast_from
from pylaunch.errors import ClusterNotReadyError, ExitCode
from pylaunch.features.push import view
from pylaunch.features.push.sources import files_of_node, without
from pylaunch.inventory import load_cluster
from pylaunch.model.hostset import fold
from pylaunch.terminal import console, document, options

EXAMPLES = """\b
Examples:
  pylaunch push -i cluster.ini model.safetensors /data/models/
  pylaunch push -i cluster.ini ./dataset /data/cifar10
  pylaunch push -i cluster.ini --limit-rate 50MB *.sqsh /var/tmp/images/
  pylaunch push -i cluster.ini n1:/data/model /data/model
"""


@click.command(epilog=EXAMPLES)
@click.argument("sources", nargs=-1, required=True, metavar="[NODE:]FILE|DIR…")
@click.argument("destination", metavar="DEST")
@options.inventory
@options.limit
@options.limit_rate("Bytes per second that this machine, and each host, sends: 50MB.")
@options.as_json
def command(
    sources: tuple[str, ...], destination: str, inventory: Path | None, limit: str | None, **given: Any
) -> int:  # fmt: skip
    """Copy files and directories to every host. They leave this machine about once: hosts pass pieces on to each other.
    NODE:PATH is on NODE, and leaves it about once.

    DEST is a directory if it ends with / or there are several sources, otherwise the path of the copy. Files replace
    those of the same name at the end, all at once for each file; other files in a directory stay. What a host has
    already is not sent. After an interruption, the same command sends the rest.
    """
    rate = given["limit_rate"]
    node = files_of_node(sources, lambda: load_cluster(inventory))
    cluster = load_cluster(inventory, limit=limit)
    with view.following(cluster.names) as on_progress:
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
        document.show(view.as_data(payload, result, source))
    else:
        view.show(payload, result, source)
    if failed := [name for name, received in result.hosts.items() if received.error is not None]:
        what = f"{fold(failed)}: {'do' if len(failed) > 1 else 'does'} not have the files"
        hints = [hint for name in failed if (hint := result.hosts[name].hint) is not None]
        raise ClusterNotReadyError(what, evidence=view.failures(result), hint=hints[0] if hints else None)
    return ExitCode.DONE
