"""Import of large packages without garbage collection.

What an import creates stays, and looking for garbage in it takes an eighth of the import of PyTorch. While the main
thread imports a module of a large package, and no function of the script runs, the threshold of the youngest generation
is out of reach. It is restored at the end of the outermost such import, unless the package has set thresholds of its
own. `gc.disable()` in a package stays in force, which it would not if this module disabled garbage collection and
enabled it again.
The objects then belong to the oldest generation, as if the collections had found all of them in use.
Loaded by `sitecustomize.py` at the first import of such a package: other ranks do not pay for it.
"""

import _frozen_importlib_external as external  # Python has loaded it already.
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OUT_OF_REACH = 0x7FFF_FFFF
"""Largest threshold. Not 0, which a package may set itself to turn garbage collection off."""

MOST_IMMORTAL = 2000
"""Frozen objects of a Python that has not been asked to freeze any (3.12: 375); a script freezes several thousand."""

IMPORTING = (
    "importlib.", "_frozen_importlib.", "_frozen_importlib_external.", "runpy.", "site.", "sitecustomize.",
    "multiprocessing.", "pylaunch.agent.in_rank.",
)  # fmt: skip
"""Modules, with those in them, whose functions import for the script."""

IMPORTLIB = "<frozen importlib._bootstrap>"
"""Name of a file whose frames Python removes from the traceback of an import that fails."""


def is_at_top_level(frame: "Any") -> bool:
    """Return True unless a function of the script or of a library is running.

    The end of a pause makes all objects old ones. Those of a function that has begun to work, such as a model with its
    process group, would then be collected later than in an ordinary import, when their end may be too late.
    """
    while frame is not None:
        name = f"{frame.f_globals.get('__name__')}."
        if frame.f_code.co_name != "<module>" and not name.startswith(IMPORTING):
            return False
        frame = frame.f_back
    return True


class Pauses:
    """Pauses of garbage collection in the imports of this process, of which the first one is being done now."""

    def __init__(self, finder: object) -> None:
        """`finder` is the one that asks for specs, which are those of the other finders of sys.meta_path."""
        self._finder = finder
        os.register_at_fork(after_in_child=self.resume)
        self._thresholds: tuple[int, ...] = ()
        """Thresholds to restore; () unless garbage collection is paused."""

        self._paused: tuple[int, ...] = ()

    def spec(self, name: str, path: "Any", target: "Any") -> "Any":
        """Return the spec of a module that is being imported, whose loader pauses. None leaves it to the others."""
        caller = sys._getframe(2).f_back  # noqa: SLF001 -- the caller of importlib's `_find_spec`
        if self._thresholds or caller is None or caller.f_code.co_name != "_find_and_load_unlocked":
            return None  # Within a pause, or a question where the module is.
        if not is_at_top_level(caller):
            return None
        for finder in [each for each in sys.meta_path if each is not self._finder]:
            if not hasattr(finder, "find_spec"):
                return None
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if type(spec.loader) is external.SourceFileLoader:
                    self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: "Any") -> None:
        """Let the next `exec_module` of `loader` pause garbage collection. The module itself sees the ordinary one."""

        def exec_module(module: object) -> None:
            vars(loader).pop("exec_module", None)
            try:
                self._pause()
                loader.exec_module(module)
            finally:
                self.resume()

        exec_module.__code__ = exec_module.__code__.replace(co_filename=IMPORTLIB)
        loader.exec_module = exec_module

    def _pause(self) -> None:
        thresholds = gc.get_threshold()
        if gc.isenabled() and thresholds[0] and not self._thresholds:
            self._thresholds = thresholds
            gc.set_threshold(OUT_OF_REACH, *thresholds[1:])
            self._paused = gc.get_threshold()

    def resume(self) -> None:
        """Restore the thresholds, in a child process also in the middle of an import."""
        if not self._thresholds:
            return
        if gc.get_threshold() == self._paused:
            if gc.get_count()[0] > self._thresholds[0] and gc.get_freeze_count() < MOST_IMMORTAL:
                gc.freeze()  # These two move all objects to the oldest generation. Else all are young, and the next
                gc.unfreeze()  # allocation would look for garbage in them, for as long as had been saved.
            gc.set_threshold(*self._thresholds)
        self._thresholds = ()
