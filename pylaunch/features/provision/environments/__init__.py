"""The Python environment of a project: its lock and its manifest."""
