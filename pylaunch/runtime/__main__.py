"""`python -m pylaunch.runtime SCRIPT [ARGS]…`: run SCRIPT as `python SCRIPT` does, and make a failed script exit.

`-m MODULE` in place of SCRIPT runs a module as `python -m MODULE` does.

pylaunch starts ranks of JAX this way. A rank that raises, or exits with a code other than 0, records its exception for
the launcher and skips JAX's shutdown barrier, in which it would wait for peers that wait for it.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from importlib.machinery import SourceFileLoader
from typing import Callable

from pylaunch.runtime import failure


def main(words: list[str]) -> None:
    """Run the script. Raises the exception of the script."""
    if not words:
        sys.exit("pylaunch.runtime: expected a script: python -m pylaunch.runtime SCRIPT [ARGS]…")
    script = words[0]
    failure.watch(above=main.__code__.co_filename)
    if script == "-m" and len(words) > 1:
        sys.argv[:] = words[1:]
        sys.path[0] = os.getcwd()
        _run(lambda: runpy.run_module(words[1], run_name="__main__", alter_sys=True))
        return
    sys.argv[:] = words
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    module = types.ModuleType("__main__")
    loader = SourceFileLoader("__main__", script)
    module.__dict__.update(__file__=script, __loader__=loader, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    code = compile(loader.get_data(script), script, "exec", dont_inherit=True)
    _run(lambda: exec(code, module.__dict__))


def _run(run: Callable[[], object]) -> None:
    try:
        run()
    except SystemExit as end:
        if end.code not in (None, 0):
            failure.skip_jax_shutdown()
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
