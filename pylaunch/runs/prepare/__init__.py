"""Connect, prepare, hold at the barrier, release."""
