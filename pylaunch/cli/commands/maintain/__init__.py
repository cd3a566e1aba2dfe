"""Verbs of the group Maintain of `pylaunch --help`."""
