"""Readers of one subject each, for the probe alone: they are piped to a host and never installed there.

A module has `READERS`: name → function of one question (JSON in, JSON out). A reader that finds nothing to look at
returns null; one that cannot look raises OSError, ValueError or subprocess.SubprocessError with the reason.
"""
