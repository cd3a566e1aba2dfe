"""Readers of one subject each, for the probe alone; a reader's name begins with that of its module."""
