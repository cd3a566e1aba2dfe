"""Report whether a node has an image in its store; the controller sends it otherwise."""

import json
import os

from pylaunch.base.layout import AgentError, open_root


def has(root: str, path: str) -> None:
    """Print whether the store of the node root `root` has a file at `path`, which counts as a use; files appear there
    when they are whole."""
    try:
        file = os.path.join(open_root(root).images, path)
        os.utime(os.path.dirname(file))
        print(json.dumps({"has": os.path.isfile(file)}))
    except (AgentError, OSError):
        print(json.dumps({"has": False}))
