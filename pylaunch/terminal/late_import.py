"""Import modules when they are needed."""

import gc
import importlib
from types import ModuleType


def imported(name: str) -> ModuleType:
    """Import a module without garbage collection. Nothing of a module becomes garbage before the process ends."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
