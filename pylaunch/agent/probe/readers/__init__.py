"""Readers of the probe, one subject per module; a reader's name begins with that of its module."""
