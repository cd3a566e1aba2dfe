"""Report whether a node has an image in its store; the controller sends it otherwise."""

from __future__ import annotations

import json
import os

from pylaunch.base.layout import AgentError, open_root


def has(root: str, path: str) -> None:
    """Print whether the store of the node root `root` has a file at `path`; files appear there when they are whole."""
    try:
        print(json.dumps({"has": os.path.isfile(os.path.join(open_root(root).images, path))}))
    except AgentError:
        print(json.dumps({"has": False}))
