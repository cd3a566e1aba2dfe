"""Verbs of the group Prepare of `pylaunch --help`."""
