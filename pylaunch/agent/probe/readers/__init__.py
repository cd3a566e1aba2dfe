"""Readers of the probe, one subject per module; the name of a reader begins with that of its module."""
