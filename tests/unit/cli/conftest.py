"""Verbs are imported when they are used, and what they import may start a process once (ctypes asks ldconfig)."""

import importlib

from pylaunch.cli.main import VERBS

for verb in VERBS.values():
    importlib.import_module(verb.module)
