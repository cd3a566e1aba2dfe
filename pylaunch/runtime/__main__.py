"""`python -m pylaunch.runtime SCRIPT [ARGS]…`: run SCRIPT as `python SCRIPT` would, and let a failed one end.

`-m MODULE` in place of SCRIPT runs a module as `python -m MODULE` would.

pylaunch starts ranks of JAX this way. A rank that raises, or exits with a code that is not 0, keeps its exception for
the launcher and does not wait in JAX's shutdown barrier for peers that wait for it.
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
    """Be the script. Raises what it raises."""
    if not words:
        sys.exit("pylaunch.runtime: expected a script: python -m pylaunch.runtime SCRIPT [ARGS]…")
    script = words[0]
    failure.watch(above=main.__code__.co_filename)
    if script == "-m" and len(words) > 1:
        sys.argv[:] = words[1:]
        sys.path[0] = os.getcwd()
        _let_go_if_failed(lambda: runpy.run_module(words[1], run_name="__main__", alter_sys=True))
        return
    sys.argv[:] = words
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    module = types.ModuleType("__main__")
    loader = SourceFileLoader("__main__", script)
    module.__dict__.update(__file__=script, __loader__=loader, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    code = compile(loader.get_data(script), script, "exec", dont_inherit=True)
    _let_go_if_failed(lambda: exec(code, module.__dict__))


def _let_go_if_failed(run: Callable[[], object]) -> None:
    try:
        run()
    except SystemExit as end:
        if end.code not in (None, 0):
            failure.let_go()
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
