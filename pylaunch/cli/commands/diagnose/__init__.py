"""Verbs of the group Diagnose of `pylaunch --help`."""
