"""The working tree: read, compare, send."""
