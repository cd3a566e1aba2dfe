"""Checks of GPUs and InfiniBand devices."""
