"""Verbs of the group Run of `pylaunch --help`."""
