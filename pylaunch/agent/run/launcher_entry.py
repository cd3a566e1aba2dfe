"""`agent.pyz launcher GATE PART MODULE [ARGS]…`: run `python -m MODULE ARGS`, a launcher, after the gate.

The interpreter of the ranks runs this file. It imports PART, which takes most of the time of the launcher, while the
process waits at the gate. So the import is over, or has at least begun, when the run is released. GATE is a descriptor:
see `spawn`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys

from pylaunch.agent.run import spawn


def main() -> int:
    """Run the launcher. Returns only if it does not end the process itself."""
    gate, part, module, arguments = int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
    sys.path[0] = os.getcwd()
    with contextlib.suppress(ImportError):  # The module itself reports it, after the release.
        importlib.import_module(part)
    port = spawn.read_token(gate)
    os.close(gate)
    if port is None:
        return spawn.NOT_RUNNABLE
    sys.argv[1:] = [spawn.with_port(word, port) for word in arguments]
    os.environ.update({name: spawn.with_port(value, port) for name, value in os.environ.items()})
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    return 0
