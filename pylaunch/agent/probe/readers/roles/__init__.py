"""Readers of what roles change on a host."""
