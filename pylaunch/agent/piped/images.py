"""Report whether a node has an image in its store; the controller sends it otherwise."""

from __future__ import annotations

import json
import os

from pylaunch.base.layout import AgentError, open_root


def has(root: str, path: str, size: int) -> None:
    """Print whether the store of the node root `root` has a file of `size` bytes at `path`."""
    try:
        print(json.dumps({"has": os.path.getsize(os.path.join(open_root(root).images, path)) == size}))
    except (OSError, AgentError):
        print(json.dumps({"has": False}))
