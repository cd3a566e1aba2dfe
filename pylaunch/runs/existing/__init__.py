"""Runs that are under way or over: find, attach, stop, prove clean."""
