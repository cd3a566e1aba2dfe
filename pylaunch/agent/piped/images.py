"""Report whether a node has an image in its store, or room for it; the controller sends it otherwise."""

import contextlib
import glob
import json
import os

from pylaunch.agent.piped.piece_store import STAGING
from pylaunch.base.layout import AgentError, open_root


def has(root: str, path: str) -> None:
    """Print whether the store of the node root `root` has a file at `path`, which counts as a use; files appear there
    when they are whole. Otherwise also the store, and the bytes that are free there or have pieces of the file."""
    found: dict[str, object] = {"has": False}
    with contextlib.suppress(AgentError, OSError):
        node_root = open_root(root)
        file = os.path.join(node_root.images, path)
        space = os.statvfs(next(filter(os.path.isdir, (os.path.dirname(file), node_root.images, node_root.path))))
        pieces = glob.glob(os.path.join(glob.escape(os.path.dirname(file)), f"{STAGING}*", "*"))
        free = space.f_bavail * space.f_frsize + sum(os.lstat(each).st_blocks * 512 for each in pieces)
        found.update(free=free, store=node_root.images)
        os.utime(os.path.dirname(file))
        found["has"] = os.path.isfile(file)
    print(json.dumps(found))
