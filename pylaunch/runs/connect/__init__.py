"""Connections to the agents of a run."""
