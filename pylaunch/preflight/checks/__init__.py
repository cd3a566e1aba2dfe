"""The checks, one module per subject; each has `CHECKS`."""
