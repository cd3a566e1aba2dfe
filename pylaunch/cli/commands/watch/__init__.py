"""Verbs of the group Watch of `pylaunch --help`."""
