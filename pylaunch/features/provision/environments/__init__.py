"""The Python environment of a project: its lock file and its archive."""
