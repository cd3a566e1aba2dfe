"""Faults of nodes, which can be undone."""
