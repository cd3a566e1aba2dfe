"""Readers of the state of a host that checks judge."""
