"""Sources of a push that are on a node: `NODE:PATH`."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence

from pylaunch.broadcast.node_source import NodeFiles
from pylaunch.broadcast.payload import copies_of
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold


def files_of_node(sources: Sequence[str], inventory: Callable[[], Cluster]) -> NodeFiles | None:
    """Return the node of `NODE:PATH…` with the paths; None for files of this machine, also with a colon in the name.
    Raises UsageError."""
    there = [source.partition(":")[::2] for source in sources if is_on_node(source)]
    if not there:
        return None
    names = {name for name, _ in there}
    if len(names) > 1 or len(there) < len(sources):
        raise UsageError("the sources are in several places", hint="one push for this machine and each node")
    name, cluster = names.pop(), inventory()
    if name not in cluster.names:
        hint = f"./{sources[0]} would be a file of this machine"
        raise UsageError(f"{name}: not in the inventory, which has {fold(cluster.names)}", hint=hint)
    if not all(path for _, path in there):
        raise UsageError(f"{name}: no path on the node", hint=f"pylaunch push {name}:/data/model /data/model")
    return NodeFiles(cluster[name], cluster.known_hosts, tuple(path for _, path in there))


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
